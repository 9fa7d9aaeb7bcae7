"""What the features cost on DynamoDB, as the design's table of costs promises it: through the app, not write by write.

The units are those that DynamoDB Local reports, without the index of leases, in a process that lets go of what it has
done at once, as a function of Lambda does.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial

import pytest

import holdfast as hf
from holdfast.backends.aws import Bells, DynamoStore, LocalDoorbell, Usage
from holdfast.backends.aws.requests import BOUNDS
from holdfast.ports import Home
from holdfast.runtime.lambda_ import limits_of

pytestmark = pytest.mark.gentle("it counts requests and units")

OpenStore = Callable[..., Awaitable[DynamoStore]]


class Shop:
    """An app with one of each, on a table of its own."""

    def __init__(self, store: DynamoStore) -> None:
        self.store = store
        self.app = app = hf.App("shop", home=partial(_home, store), limits=limits_of(hf.Limits(sweep_seconds=3600)))

        class Counter(hf.Actor, app=app):
            count: int = 0

            async def add(self) -> int:
                self.count += 1
                return self.count

            async def add_and_tell(self, others: int) -> None:
                self.count += 1
                for number in range(others):
                    await hf.send(Counter.at(f"other-{number}").add)

            async def add_and_wait(self) -> None:
                self.count += 1
                self.wake.after("1h")

            @hf.timer
            async def wake(self) -> None:
                self.count = 0

        class Tally(hf.Actor, app=app, optimistic=True):
            count: int = 0

            async def add(self) -> int:
                self.count += 1
                return self.count

        @app.workflow
        async def nap() -> None:
            await hf.sleep("1h")

        @app.idempotent(key="order")
        async def pay(order: str) -> str:
            return order

        self.counter, self.tally, self.nap, self.pay = Counter, Tally, nap, pay

    def spent(self) -> Usage:
        """What was spent since the last look."""
        total = self.store.meter.total
        self.store.meter.reset()
        return total


@asynccontextmanager
async def opened(open_store: OpenStore) -> AsyncIterator[Shop]:
    shop = Shop(await open_store())
    async with shop.app.worker():
        await shop.counter.at("warm").add()
        await shop.tally.at("warm").add()
        await quiet(shop)
        shop.spent()
        yield shop


async def quiet(shop: Shop) -> None:
    """Until nothing has been sent for a moment."""
    requests = -1
    while requests != (requests := shop.store.meter.total.requests):
        await asyncio.sleep(0.1)


async def test_an_optimistic_call_is_one_write(open_store: OpenStore) -> None:
    async with opened(open_store) as shop:
        assert await shop.tally.at("warm").add() == 2
        await quiet(shop)
        assert shop.spent() == Usage(requests=1, write_units=1)
        assert await shop.tally.at("cold").add() == 1
        await quiet(shop)
        assert shop.spent() == Usage(requests=2, write_units=1, read_units=1)


async def test_a_call_is_a_claim_that_loads_and_a_commit_that_releases(open_store: OpenStore) -> None:
    async with opened(open_store) as shop:
        assert await shop.counter.at("warm").add() == 2
        await quiet(shop)
        assert shop.spent() == Usage(requests=2, write_units=2)


async def test_a_timer_rides_along_and_enters_the_index(open_store: OpenStore) -> None:
    async with opened(open_store) as shop:
        await shop.counter.at("warm").add_and_wait()
        await quiet(shop)
        assert shop.spent() == Usage(requests=2, write_units=2 + 1)


async def test_messages_that_wait_share_a_claim_and_a_commit(open_store: OpenStore) -> None:
    """Twenty of them. Each is taken out of the head by the write that has the actor as it is after it."""
    shop = Shop(await open_store())
    async with shop.app:
        for _ in range(20):
            await hf.send(shop.counter.at("one").add)
        shop.spent()
        async with shop.app.worker():
            await quiet(shop)
    requests = {name: used.requests for name, used in shop.store.meter.usage.items() if used.write_units}
    assert requests.keys() == {"UpdateItem"}, "no transaction"
    assert requests["UpdateItem"] <= 7, "a claim, a commit for a moment's messages each, and perhaps a release"


async def test_a_message_is_one_write_and_its_handling_two(open_store: OpenStore) -> None:
    """Each of them of one item; two more units are the entry of the actor in the index of what is due."""
    async with opened(open_store) as shop:
        await hf.send(shop.counter.at("warm").add)
        used = shop.store.meter.usage
        async with asyncio.timeout(60):
            while used["UpdateItem"].requests < 3:
                await asyncio.sleep(0.01)
        await quiet(shop)
        assert used["UpdateItem"] == Usage(requests=3, write_units=3 + 2)
        assert used.keys() <= {"UpdateItem", "GetItem", "Query"}


async def test_an_idempotent_call_is_two_writes_and_a_repeat_is_one(open_store: OpenStore) -> None:
    async with opened(open_store) as shop:
        for writes in (2, 1):
            assert await shop.pay("order-17") == "order-17"
            await quiet(shop)
            assert shop.spent() == Usage(requests=writes, write_units=writes)


async def test_a_suspension_is_a_write_and_its_place_in_the_index(open_store: OpenStore) -> None:
    """The start enters the index, so that the execution is found if its owner dies; the suspension moves it there."""
    async with opened(open_store) as shop:
        await shop.nap.start(id="one")
        await quiet(shop)
        assert shop.spent() == Usage(requests=2, write_units=(1 + 1) + (1 + 2))


async def test_idle_costs_nothing(open_store: OpenStore) -> None:
    """Besides the sweep, which is an hour away here; although an actor, a timer and a sleeper are there."""
    async with opened(open_store) as shop:
        await shop.counter.at("one").add_and_wait()
        await shop.nap.start(id="one")
        await quiet(shop)
        shop.spent()
        await asyncio.sleep(1)  # nothing comes, so there is nothing to wait for
        assert shop.spent() == Usage()


async def _home(store: DynamoStore) -> Home:
    return Home(
        url=f"aws://{store.table}",
        owner="worker",
        store=store,
        doorbell=LocalDoorbell(Bells(), "worker"),
        bounds=BOUNDS,
        writes_are_paid=True,
        reads_are_paid=True,
        hears_peers=False,
        salt="known",
    )
