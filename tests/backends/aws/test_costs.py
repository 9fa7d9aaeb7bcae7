"""What things cost on DynamoDB: requests and units, as DynamoDB Local reports them and DESIGN §5 promises them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from random import Random
from typing import Any

import pytest

import holdfast as hf
from holdfast.backends.aws import Bells, DynamoStore, LocalDoorbell, Usage
from holdfast.errors import Refused
from holdfast.items import ABSENT, UNOWNED, AllOf, Item, LeaseLapsed, OwnerIs, Put, RevisionIs, Update, Write
from holdfast.ports import Home

pytestmark = pytest.mark.gentle("it counts requests and units")

OpenStore = Callable[..., Awaitable[DynamoStore]]

BODY = Random(1).randbytes(700)
"""With its header, less than a kilobyte; and nothing that zlib could make smaller."""
FREE = Item("p", status="READY", due_at=1000, body=BODY)
LEASED = Item("p", status="RUNNING", owner="me", lease_until=500, epoch=3, body=BODY)
OURS = OwnerIs("me", 3)

CLAIM = Update(partition="p", when=UNOWNED, status="RUNNING", owner="me", lease_until=9, add_epoch=1, load=True)
RENEW = Update(partition="p", when=AllOf((OURS, LeaseLapsed(999))), lease_until=999)
CHECKPOINT = Put(Item("p", "j#000000#0000000001", owner="me", epoch=3, body=BODY), ABSENT)
SUSPEND = Update(partition="p", when=AllOf((OURS, RevisionIs(0))), owner=None, lease_until=None, due_at=2000)
RELEASE = Update(partition="p", when=AllOf((OURS, RevisionIs(0))), owner=None, lease_until=None, due_at=None, body=BODY)
COMMIT = Update(partition="p", when=OURS, status="RUNNING", lease_until=999, body=BODY, add_epoch=1)

COSTS: list[tuple[str, Item | None, Write, int]] = [
    # what, what is there before, the write, write units
    ("start", None, Put(FREE, ABSENT), 2),
    ("start, leased", None, Put(LEASED, ABSENT), 1),
    ("claim and load", FREE, CLAIM, 1),
    ("checkpoint", LEASED, CHECKPOINT, 1),
    ("renew", LEASED, RENEW, 1),
    ("commit and stay", LEASED, COMMIT, 1),
    ("commit and release", LEASED, RELEASE, 1),
    ("suspend until", LEASED, SUSPEND, 2),
]


@pytest.mark.parametrize(("name", "before", "write", "units"), COSTS, ids=[each[0] for each in COSTS])
async def test_a_write_costs_one_request_and(
    name: str, before: Item | None, write: Write, units: int, open_store: OpenStore
) -> None:
    store = await open_store()
    if before is not None:
        await store.write(Put(before))
    store.meter.reset()
    await store.write(write)
    assert store.meter.total == Usage(requests=1, write_units=units)
    await store.close()


async def test_an_actor_call_costs_two_requests_and_two_units(open_store: OpenStore) -> None:
    store = await open_store()
    await store.write(Put(Item("p", status="SUSPENDED", epoch=2, body=BODY)))
    store.meter.reset()
    (claimed,) = await store.write(CLAIM)
    assert claimed == Item("p", status="RUNNING", owner="me", lease_until=9, epoch=3, body=BODY)
    await store.write(RELEASE)
    assert store.meter.total == Usage(requests=2, write_units=2)
    await store.close()


@pytest.mark.parametrize(("size", "units"), [(700, 1), (1_800, 2), (7_900, 8)])
async def test_a_refused_write_is_counted_by_what_is_there(size: int, units: int, open_store: OpenStore) -> None:
    store = await open_store()
    there = Item("p", body=Random(1).randbytes(size))
    await store.write(Put(there))
    assert store.meter.total.write_units == units
    store.meter.reset()
    with pytest.raises(Refused):
        await store.write(Put(Item("p"), ABSENT))
    assert store.meter.usage == {"PutItem": Usage(requests=1, write_units=units)}
    await store.close()


async def test_a_refused_transaction_is_counted_twice_for_each_item(open_store: OpenStore) -> None:
    store = await open_store()
    await store.write(Put(Item("p", body=Random(1).randbytes(1_800))))
    store.meter.reset()
    with pytest.raises(Refused):
        await store.write(Put(Item("p"), ABSENT), Put(Item("p", "j/1"), ABSENT))
    assert store.meter.total == Usage(requests=1, write_units=6)
    await store.close()


@pytest.mark.parametrize(("size", "units"), [(700, 1), (4_200, 2), (8_200, 3)])
async def test_a_get_costs_a_unit_for_each_4_kb(size: int, units: int, open_store: OpenStore) -> None:
    store = await open_store()
    await store.write(Put(Item("p", body=Random(1).randbytes(size))))
    store.meter.reset()
    await store.get("p")
    assert store.meter.usage == {"GetItem": Usage(requests=1, read_units=units)}
    await store.close()


async def test_what_repeats_itself_is_stored_smaller(open_store: OpenStore) -> None:
    store = await open_store()
    text = b'{"sku":"sku-9","count":1}' * 2_000
    await store.write(Put(Item("p", body=text)), Put(Item("q", body=b"small")))
    await store.write(Update(partition="q", body=text))
    assert (await store.get("p"), await store.get("q")) == (Item("p", body=text), Item("q", body=text))
    store.meter.reset()
    await store.write(Put(Item("r", body=text)))
    assert store.meter.total.write_units == 1
    await store.write(Update(partition="p", body=b"small again"))
    assert await store.get("p") == Item("p", body=b"small again")
    await store.close()


async def test_a_sweep_that_finds_nothing_costs_one_look(open_store: OpenStore) -> None:
    store = await open_store()
    await store.write(Put(Item("p", due_at=1000)), Put(Item("q", body=BODY)))
    store.meter.reset()
    assert (await store.due(999)).items == ()
    assert store.meter.usage == {"Scan": Usage(requests=1, read_units=0.5)}
    await store.close()


async def test_a_workflow_of_k_steps_costs_k_and_one_writes(open_store: OpenStore) -> None:
    """The start, a checkpoint for each step but the last, whose outcome the end carries; the end.

    It is in the index of what is due from its start to its end, for whoever finds it if its owner dies: two units.
    """
    store = await open_store()
    app = hf.App("shop", home=partial(_home, store))

    @app.step
    async def step(number: int) -> int:
        return number

    @app.workflow
    async def steps(count: int) -> int:
        return sum([await step(number) for number in range(count)])

    async with app.worker():
        store.meter.reset()
        assert await (await steps.start(5, id="one")) == 10
    written: Any = {name: used for name, used in store.meter.usage.items() if used.write_units}
    assert sum(used.requests for used in written.values()) == 5 + 1, written
    assert sum(used.write_units for used in written.values()) == 5 + 1 + 2


async def test_a_lone_call_of_an_actor_costs_two_requests_and_two_units(open_store: OpenStore) -> None:
    """A claim, which is the load; a commit, which is the release. Who calls again in a moment finds it warm."""
    store = await open_store()
    app = hf.App("shop", home=partial(_home, store))

    class Counter(hf.Actor, app=app):
        count: int = 0

        async def add(self) -> int:
            self.count += 1
            return self.count

    async def cost() -> Usage:
        store.meter.reset()
        await Counter.at("one").add()
        return store.meter.total

    async with app.worker():
        first, second, third = [await cost() for _ in range(3)]
    assert first == Usage(requests=3, write_units=3)  # there was none
    assert second == Usage(requests=2, write_units=2)
    assert third == Usage(requests=1, write_units=1)


async def test_a_message_of_an_actor_takes_single_writes_only(open_store: OpenStore) -> None:
    """The entry rides in the commit of its sender, and leaves with the release. The delivery is one write."""
    store = await open_store()
    app = hf.App("shop", home=partial(_home, store))
    seen: list[int] = []

    class Till(hf.Actor, app=app):
        cents: int = 0

        async def pay(self, cents: int) -> None:
            self.cents += cents
            seen.append(cents)

    class Desk(hf.Actor, app=app):
        served: int = 0

        async def serve(self, cents: int) -> None:
            self.served += 1
            await hf.send(Till.at("t").pay, cents)

    async def cost(cents: int) -> Usage:
        store.meter.reset()
        await Desk.at("d").serve(cents)
        async with asyncio.timeout(60):
            while app.runtime().host is None or cents not in seen or not app.runtime().host.is_quiet:
                await asyncio.sleep(0.01)
        return store.meter.total

    async with app.worker():
        await cost(1)
        usage = await cost(2)
    assert usage.write_units <= 11  # seven writes of one item each, and four changes of the due index
    assert usage.requests <= 9


async def _home(store: DynamoStore) -> Home:
    doorbell = LocalDoorbell(Bells(), "worker")
    return Home(
        url=f"aws://{store.table}",
        owner="worker",
        store=store,
        doorbell=doorbell,
        writes_are_paid=True,
        reads_are_paid=True,
        hears_peers=False,
        salt="known",
    )
