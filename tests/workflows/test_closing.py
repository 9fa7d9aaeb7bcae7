"""The end of a callback's time while an answer comes: the one that the store has first counts, and no other is told."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from functools import partial

import pytest
from msgspec.structs import replace

import holdfast as hf
from holdfast.backends.memory import MemoryData, open_memory_home
from holdfast.coordination.inbox import CLOSED, USED
from holdfast.errors import StoreUnavailable
from holdfast.items import Item, Put, Write
from holdfast.ports import Home
from holdfast.testing import PATIENT, FaultsAt, Ledger, Scenario, VirtualClock, run_scenario, run_virtual
from holdfast.testing.faults import CrashAfter, CrashBefore, Delay, FailBefore, LoseAnswer, WriteFault
from holdfast.testing.simulation import Histories
from holdfast.testing.world import User
from holdfast.workflows.record import ANSWERED_PREFIX, partition_of

Fault = Callable[["Store", Sequence[Write]], Awaitable[Sequence[Item | None]]]

TIMEOUT_SECONDS = 60
LATENCY_SECONDS = 0.01


class Store:
    """A store that is called on the way of each write that closes a callback."""

    def __init__(self, data: MemoryData, fault: Fault) -> None:
        self.there = open_memory_home(data=data).store
        self.fault = fault
        self.closings = 0

    def __getattr__(self, name: str) -> object:
        return getattr(self.there, name)

    async def write(self, *writes: Write) -> Sequence[Item | None]:
        await asyncio.sleep(LATENCY_SECONDS)
        closes = any(isinstance(each, Put) and _closes(each.item) for each in writes)
        self.closings += closes
        done = await (self.fault(self, writes) if closes else self.there.write(*writes))
        await asyncio.sleep(LATENCY_SECONDS)
        return done


def _closes(item: Item) -> bool:
    return item.sort.startswith(ANSWERED_PREFIX) and not item.body


class Parcel:
    """An execution that waits for a callback, in one process, and who answers it, in another."""

    def __init__(self, fault: Fault | None = None) -> None:
        self.data = MemoryData()
        self.store = Store(self.data, fault or sound)
        self.worker = self.app("worker", self._faulty)
        self.client = self.app("client", partial(_open, self.data))
        self.tokens: list[str] = []
        self.accepted: bool | None = None

    async def _faulty(self) -> Home:
        return replace(open_memory_home(data=self.data), store=self.store)

    def app(self, name: str, home: Callable[[], Awaitable[Home]]) -> hf.App:
        app = hf.App(name, home=home, clock=VirtualClock(), limits=PATIENT)

        @app.step
        async def hand_out(token: str) -> None:
            self.tokens.append(token)

        @app.workflow
        async def parcel(timeout: float | None = TIMEOUT_SECONDS, heartbeat: float | None = None) -> str:
            answer = hf.callback(str, timeout=timeout, heartbeat=heartbeat)
            await hand_out(answer.token)
            try:
                return await answer
            except hf.StepTimeout:
                await hf.sleep(1)
                return "timed out"

        return app

    async def answer(self) -> None:
        """Answer, and note whether that was accepted."""
        try:
            await self.client.callback(self.tokens[0]).complete("an answer")
        except hf.InvalidToken:
            self.accepted = False
        else:
            self.accepted = True

    async def play(self, *arguments: float | None) -> str:
        """The result of the execution, which must be what everyone was told."""
        async with self.worker.worker(), self.client:
            result: str = await (await self.worker.registry.workflow("parcel").start(*arguments, id="p"))
            assert self.accepted is not None, "the fault has not happened"
            for said in ("an answer", "another"):  # a repeat is told the same as the first one
                try:
                    await self.client.callback(self.tokens[0]).complete(said)
                except hf.InvalidToken:
                    assert not (self.accepted and said == "an answer")
                else:
                    assert self.accepted, said
                    assert said == "an answer"
            return result

    @property
    def mark(self) -> Item:
        """The mark that the callback takes no answer."""
        (mark,) = [each for sort, each in self.data.partitions[self.partition].items() if sort[:2] == ANSWERED_PREFIX]
        return mark

    @property
    def partition(self) -> str:
        return partition_of("parcel", "p")


async def _open(data: MemoryData) -> Home:
    return open_memory_home(data=data)


async def sound(store: Store, writes: Sequence[Write]) -> Sequence[Item | None]:
    return await store.there.write(*writes)


def answered_first(parcel: Parcel) -> Fault:
    """The answer is accepted while the write is on its way, the first time."""

    async def fault(store: Store, writes: Sequence[Write]) -> Sequence[Item | None]:
        if parcel.accepted is None:
            await parcel.answer()
        return await store.there.write(*writes)

    return fault


@pytest.mark.parametrize("limits", [(TIMEOUT_SECONDS, None), (None, TIMEOUT_SECONDS), (TIMEOUT_SECONDS, 59)])
def test_an_answer_that_is_accepted_before_the_callback_is_closed_reaches_the_body(limits):
    parcel = Parcel()
    parcel.store.fault = answered_first(parcel)
    assert run_virtual(lambda: parcel.play(*limits)) == "an answer"
    assert parcel.accepted
    assert parcel.mark.status == USED


def test_an_answer_after_the_callback_is_closed_is_refused():
    parcel = Parcel()

    async def then_answered(store: Store, writes: Sequence[Write]) -> Sequence[Item | None]:
        done = await store.there.write(*writes)
        await parcel.answer()
        return done

    parcel.store.fault = then_answered
    assert run_virtual(parcel.play) == "timed out"
    assert not parcel.accepted
    assert parcel.mark.status == CLOSED
    assert parcel.store.closings == 1


def test_a_closing_that_was_not_applied_gives_way_to_the_answer():
    parcel = Parcel()

    async def fails(store: Store, writes: Sequence[Write]) -> Sequence[Item | None]:
        if parcel.accepted is None:
            await parcel.answer()
            raise StoreUnavailable("no answer")
        return await store.there.write(*writes)

    parcel.store.fault = fails
    assert run_virtual(parcel.play) == "an answer"
    assert parcel.store.closings == 2


def test_a_closing_whose_answer_was_lost_is_recognised():
    parcel = Parcel()

    async def loses(store: Store, writes: Sequence[Write]) -> Sequence[Item | None]:
        done = await store.there.write(*writes)
        if parcel.accepted is None:
            await parcel.answer()
            raise StoreUnavailable("no answer")
        return done

    parcel.store.fault = loses
    assert run_virtual(parcel.play) == "timed out"
    assert not parcel.accepted
    assert parcel.store.closings == 2


@pytest.mark.parametrize("body", [b"", b"the digest of an answer that a retry of an earlier release dropped"])
def test_a_mark_of_an_earlier_release_does_not_keep_the_time_from_ending(body):
    parcel = Parcel()

    async def marked(store: Store, writes: Sequence[Write]) -> Sequence[Item | None]:
        if parcel.accepted is None:
            mark = next(each.item for each in writes if isinstance(each, Put) and _closes(each.item))
            await store.there.write(Put(replace(mark, status=USED, body=body)))
            await parcel.answer()
        return await store.there.write(*writes)

    parcel.store.fault = marked
    assert run_virtual(parcel.play) == "timed out"
    assert not parcel.accepted
    assert parcel.store.closings == 1


def test_what_is_overdue_still_comes_in_the_order_of_its_times():
    app = hf.App("shop", home=partial(_open, MemoryData()), clock=VirtualClock(), limits=PATIENT)

    @app.workflow
    async def job() -> list[str]:
        order: list[str] = []

        async def late(seconds: int) -> None:
            try:
                await hf.callback(str, timeout=seconds)
            except hf.StepTimeout:
                order.append(f"callback {seconds}")

        async def sleeps(seconds: int) -> None:
            await asyncio.sleep(seconds)
            order.append(f"sleep {seconds}")

        await asyncio.gather(sleeps(40), late(30), sleeps(20), late(10))
        return order

    async def play() -> list[str]:
        async with app.worker():
            handle = await job.start(id="j")
            await asyncio.sleep(5)
        await asyncio.sleep(3600)
        async with app.worker():
            return await handle

    assert run_virtual(play) == ["callback 10", "sleep 20", "callback 30", "sleep 40"]


def test_at_any_moment_what_the_caller_is_told_is_what_the_body_gets():
    ends = []
    for moment_ms in range(-60, 61, 3):
        parcel = Parcel()

        async def play(parcel=parcel, moment_ms=moment_ms) -> str:
            async def answer_then() -> None:
                await asyncio.sleep(TIMEOUT_SECONDS + moment_ms / 1000)
                await parcel.answer()

            answering = asyncio.create_task(answer_then())
            result = await parcel.play()
            await answering
            return result

        ends.append(run_virtual(play))
        assert (ends[-1] == "an answer") == parcel.accepted, moment_ms
    assert set(ends) == {"an answer", "timed out"}


# ── Processes that die, stop and come late ──────────────────────────────────────────────────────────────────────────


LATE_SECONDS = 0.5
FAULTS: tuple[WriteFault, ...] = (
    Delay(before_seconds=1.0, after_seconds=1.0),
    Delay(before_seconds=20.0),
    CrashBefore(),
    CrashAfter(),
    FailBefore(),
    LoseAnswer(),
)


def answered(app: hf.App, ledger: Ledger) -> User:
    """A callback that is answered a moment after its time is over."""

    @app.step
    async def hand_out(token: str) -> None:
        ledger.notes["token"] = token

    @app.workflow
    async def parcel() -> str:
        answer = hf.callback(str, timeout=TIMEOUT_SECONDS)
        await hand_out(answer.token)
        try:
            return await answer
        except hf.StepTimeout:
            await hf.sleep(60)
            return "timed out"

    async def user() -> str:
        began = asyncio.get_running_loop().time()
        handle = await parcel.start(id="p")
        while "token" not in ledger.notes:
            await asyncio.sleep(0.1)
        await asyncio.sleep(began + TIMEOUT_SECONDS + LATE_SECONDS - asyncio.get_running_loop().time())
        try:
            await app.callback(ledger.notes["token"]).complete("an answer")
        except hf.InvalidToken:
            told = "timed out"
        else:
            told = "an answer"
        assert await handle == told
        return told

    return user


def test_with_a_fault_at_any_write_the_caller_is_told_what_the_body_gets(errors_expected):
    scenario = Scenario("answered", answered, histories=Histories.FREE, has_client=True)
    writes = run_scenario(scenario).writes[0]
    ends: Counter[str] = Counter()
    for number in range(1, writes + 1):
        for fault in FAULTS:
            run = run_scenario(scenario, (FaultsAt({number: fault}),))
            assert not run.violations, (number, fault)
            assert run.faults.counts.total() == 1
            ends[run.observation.result] += 1
    assert ends.keys() == {"'an answer'", "'timed out'"}
