"""A sample of what users do, through a DynamoDB with every fault, until each kind of fault has happened."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import Any

import pytest
from msgspec.structs import replace
from tests.backends.aws.local import shared_server

import holdfast as hf
from holdfast.errors import StoreUnavailable
from holdfast.testing.hostile import (
    HOSTILE,
    Cuts,
    Fault,
    HostileDynamoDB,
    IndexLag,
    Report,
    ShortPages,
    Slowness,
    TornPages,
    Transactions,
)

WANTED = (
    Fault.THROTTLED,
    Fault.PAGE_CUT_SHORT,
    Fault.INDEX_MISSED,
    Fault.FAILED_BEFORE,
    Fault.FAILED_AFTER,
    Fault.SLOW_BEFORE,
    Fault.SLOW_AFTER,
    Fault.CUT_BEFORE,
    Fault.CUT_AFTER,
    Fault.CUT_WITHIN,
)
RULES = replace(
    HOSTILE,
    transactions=Transactions(0.01),
    cuts=Cuts(0.03, 0.03, 0.03),
    index_lag=IndexLag(0.5),
    slowness=Slowness(0.1, 0.05),
    short_pages=ShortPages(0.9),
)
AT_ONCE = 4
SENDERS = 3
BURST = 4


@dataclass
class Paid:
    order: str


@pytest.fixture
def hostile(dynamodb: str) -> Iterator[HostileDynamoDB]:
    with HostileDynamoDB(shared_server().endpoint, seed=11, rules=RULES) as proxy:
        yield proxy


@pytest.mark.gentle("it has a proxy of its own")
async def test_what_was_started_ends_once_with_every_fault(hostile: HostileDynamoDB, new_url: Any) -> None:
    prefix = (await new_url()).partition("&")[0]
    home = f"{prefix}&endpoint={hostile.url}"
    app = hf.App("shop", home=home, limits=hf.Limits(sweep_seconds=0.5))
    charged: set[str] = set()
    packed: Counter[str] = Counter()

    @app.step
    async def charge(order: str) -> str:
        charged.add(hf.current().idempotency_key)
        return f"charged {order}"

    class Till(hf.Actor, app=app):
        orders: list[str] = hf.field(default_factory=list)

        async def add(self, order: str) -> int:
            self.orders = [*self.orders, order]
            await app.publish(Paid(order))
            return len(self.orders)

    @app.consumer(Paid)
    async def pack(event: Paid) -> None:
        packed[event.order] = 1

    @app.workflow
    async def checkout(order: str) -> tuple[str, int]:
        paid = await charge(order)
        await hf.sleep("100ms")
        assert await hf.signal("approved", bool)
        return paid, await Till.at("main").add(order)

    async def order(name: str) -> int:
        handle = await sure(lambda: checkout.start(name, id=name))
        await sure(lambda: handle.signal("approved", True, id="once"))
        paid, number = await sure(handle.result)
        assert paid == f"charged {name}"
        return number

    numbers: list[int] = []
    async with app.worker():
        while not numbers or any(not hostile.report.faults[fault] for fault in WANTED):
            first = len(numbers)
            numbers += await asyncio.gather(*(order(f"order-{first + n}") for n in range(AT_ONCE)))
        while len(packed) < len(numbers):
            await asyncio.sleep(0.05)
    names = {f"order-{n}" for n in range(len(numbers))}
    assert sorted(numbers) == list(range(1, len(numbers) + 1)), "each order was added once"
    assert len(charged) == len(numbers)
    assert set(packed) == names
    hostile.report.require(1, *WANTED)


@pytest.mark.gentle("it has a proxy of its own")
async def test_messages_of_two_processes_to_one_actor_meet_and_none_is_lost(hostile: Any, new_url: Any) -> None:
    prefix = (await new_url()).partition("&")[0]

    def process() -> tuple[hf.App, Any]:
        app = hf.App("shop", home=f"{prefix}&endpoint={hostile.url}")

        class Till(hf.Actor, app=app):
            total: int = 0

            async def add(self, _note: str) -> None:
                self.total += 1

            @hf.read
            async def count(self) -> int:
                return self.total

        return app, Till.at("main")

    (app, till), (other, same) = process(), process()
    note = "too large to be enclosed in the head, so the commit that takes it is a transaction. " * 30
    accepted = doubtful = 0
    async with app.worker(), other:
        while not hostile.report.faults[Fault.WRITE_CONFLICTED]:
            sent = await asyncio.gather(hf.send(till.add, note), hf.send(same.add, note), return_exceptions=True)
            accepted += sum(not isinstance(each, BaseException) for each in sent)
            doubtful += sum(isinstance(each, StoreUnavailable) for each in sent)
        while not accepted <= await sure(till.count) <= accepted + doubtful:
            await asyncio.sleep(0.05)
    hostile.report.require(1, Fault.WRITE_CONFLICTED)


@pytest.mark.gentle("it has a proxy of its own")
async def test_signals_that_come_while_a_page_is_read_are_taken_once_and_in_order(dynamodb: str, new_url: Any) -> None:
    prefix = (await new_url()).partition("&")[0]
    rules = replace(RULES, torn_pages=TornPages(pages=0.9, page_seconds=0.3))

    def process(endpoint: str) -> tuple[hf.App, Any]:
        app = hf.App("shop", home=f"{prefix}&endpoint={endpoint}", limits=hf.Limits(sweep_seconds=0.2))

        @app.workflow
        async def gather() -> list[str]:
            found: list[str] = []
            while found.count("end") < SENDERS:
                found.append(await hf.signal("entry", str))
            return found

        return app, gather

    async def send(gather: Any, sender: int, report: Report) -> int:
        handle, sent = await sure(lambda: gather.start(id="one")), 0
        while not report.faults[Fault.PASSED]:
            for _ in range(BURST):
                await sure(lambda: handle.signal("entry", f"{sender} {sent}", id=f"{sender}-{sent}"))  # noqa: B023 - it is awaited here
                sent += 1
        await sure(lambda: handle.signal("entry", "end", id=f"{sender}-end"))
        return sent

    with HostileDynamoDB(shared_server().endpoint, seed=11, rules=rules) as proxy:
        (app, gather), *others = (process(proxy.url) for _ in range(1 + SENDERS))
        async with AsyncExitStack() as running:
            await running.enter_async_context(app.worker())
            for other, _ in others:
                await running.enter_async_context(other)
            counts = await asyncio.gather(
                *(send(same, sender, proxy.report) for sender, (_, same) in enumerate(others))
            )
            found = await sure((await sure(lambda: gather.start(id="one"))).result)
    for sender, count in enumerate(counts):
        assert [each for each in found if each.startswith(f"{sender} ")] == [f"{sender} {n}" for n in range(count)]


async def sure(ask: Any) -> Any:
    """Ask again when it is not known whether it was done; each of these may be repeated."""
    while True:
        try:
            return await ask()
        except StoreUnavailable:
            continue
