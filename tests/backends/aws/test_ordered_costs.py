"""What ordered messages of SQS cost on DynamoDB, as DynamoDB Local reports it, on the path of a function of Lambda."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from uuid import UUID

import pytest
from msgspec.structs import replace
from tests.backends.aws.fifo import Fifo
from tests.backends.aws.test_costs import _home

import holdfast as hf
from holdfast.backends.aws import DynamoStore, Usage
from holdfast.clock import SystemClock
from holdfast.ports import Home

pytestmark = pytest.mark.aws

OpenStore = Callable[..., Awaitable[DynamoStore]]

BATCHES = 24


async def batches(store: DynamoStore, clock: SystemClock) -> list[Usage]:
    """The use of each of some batches of ten for one actor."""

    async def open_home() -> Home:
        return replace(await _home(store), redelivery=queue)

    queue = Fifo(clock.now_ms)
    app = hf.App("shop", home=open_home)

    class Counter(hf.Actor, app=app):
        count: int = 0

        async def add(self, by: int) -> int:
            self.count += by
            return self.count

    handler = app.lambda_handler()
    used: list[Usage] = []
    for batch in range(BATCHES):
        for number in range(10):
            body = {"actor": "Counter", "method": "add", "args": [1]}
            assert queue.send("one", body, dedup=str(UUID(int=batch * 10 + number)))
        store.meter.reset()
        await queue.deliver(handler)
        assert not queue.kept
        used.append(store.meter.total)
    asked = {"holdfast": "call", "actor": "Counter", "key": "one", "method": "add", "args": [0]}
    assert await handler.invoke(asked) == 10 * BATCHES
    await handler.aclose()
    return used


@pytest.mark.gentle
async def test_an_ordered_batch_of_ten_costs_a_claim_and_a_commit(open_store: OpenStore) -> None:
    used = await batches(await open_store(), SystemClock())
    assert used[1].write_units == 2
    assert max(each.requests for each in used) <= 5, "the settings of the home are read too, once"
    units = [each.write_units for each in used]
    assert sum(units) / BATCHES <= 5, units
    assert max(each.read_units for each in used) <= 2


async def test_batches_that_come_twice_are_exact_whatever_the_table_answers(open_store: OpenStore) -> None:
    store, clock = await open_store(), SystemClock()
    queue = Fifo(clock.now_ms)
    app = hf.App("shop", home=lambda: _home(store))

    class Counter(hf.Actor, app=app):
        seen: list[int] = hf.field(default_factory=list)

        async def add(self, number: int) -> None:
            self.seen = [*self.seen, number]

        @hf.read
        async def all(self) -> list[int]:
            return self.seen

    handler = app.lambda_handler()
    for batch in range(8):
        for number in range(batch * 10, batch * 10 + 10):
            queue.send("one", {"actor": "Counter", "method": "add", "args": [number]}, dedup=f"m{number}")
        messages = queue.receive()
        for _ in range(2):
            queue.settle(messages, await handler.invoke(queue.event(messages)))
        while queue.kept:  # the table did not answer for long
            for each in queue.kept:
                each.visible_at = 0
            await queue.deliver(handler)
    asked = {"holdfast": "call", "actor": "Counter", "key": "one", "method": "all"}
    assert await handler.invoke(asked) == list(range(80))
    await handler.aclose()
