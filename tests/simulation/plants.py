"""Planted bugs: each breaks one idea of the engine, in one place. A checker that does not find them proves nothing.

Most sit between a simulated process and its store, where the ideas are visible as writes and conditions, so that they
stay planted however the engine is arranged inside.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any, Final
from unittest import mock
from weakref import WeakKeyDictionary

from msgspec import UNSET
from msgspec.structs import replace

from holdfast import ids
from holdfast.coordination.inbox import Sender
from holdfast.errors import Refused
from holdfast.items import ALWAYS, HEAD, AllOf, Condition, Delete, Item, Put, RevisionIs, Update, Write
from holdfast.kernel.creations import Creations
from holdfast.kernel.sweep import Sweeper
from holdfast.replay.activation import Activation
from holdfast.replay.entries import Intended, Received, Tried, decode_entries
from holdfast.replay.journal import SEGMENT_PREFIX, Journal
from holdfast.testing.faulty import FaultyStore
from holdfast.workflows import launch as launching
from holdfast.workflows.execution import Execution
from holdfast.workflows.operations import child as children

Answer = Sequence[Item | None]
Send = Callable[..., Awaitable[Answer]]
"""``send(*writes)``: the way to the store that is behind the bug."""

MOMENT_SECONDS: Final = 0.05


# ── Between a process and its store ─────────────────────────────────────────────────────────────────────────────────


def at_the_store(change: Callable[[Send, tuple[Write, ...]], Awaitable[Answer]]) -> AbstractContextManager[object]:
    """Let ``change`` decide what becomes of every write of every simulated process."""
    write = FaultyStore.write

    def planted(store: FaultyStore, *writes: Write) -> Awaitable[Answer]:
        return change(lambda *changed: write(store, *changed), writes)

    return mock.patch.object(FaultyStore, "write", planted)


def each_write(change: Callable[[Write], Write]) -> AbstractContextManager[object]:
    return at_the_store(lambda send, writes: send(*map(change, writes)))


def is_segment(write: Write) -> bool:
    return isinstance(write, Put) and write.item.sort.startswith(SEGMENT_PREFIX)


def without(condition: Condition, kind: type[Condition]) -> Condition:
    match condition:
        case AllOf(conditions):
            return AllOf(tuple(each for each in conditions if not isinstance(each, kind)))
        case _:
            return ALWAYS if isinstance(condition, kind) else condition


def unconditional_commit() -> AbstractContextManager[object]:
    """A segment is written whatever is in its place."""
    return each_write(lambda write: Put(write.item, ALWAYS) if is_segment(write) else write)


def no_new_epoch() -> AbstractContextManager[object]:
    """A claim does not raise the epoch."""
    return each_write(lambda write: replace(write, add_epoch=0) if isinstance(write, Update) and write.owner else write)


def deaf_settle() -> AbstractContextManager[object]:
    """A lease is let go of although somebody has rung meanwhile."""

    def change(write: Write) -> Write:
        if isinstance(write, Update) and write.owner is None:
            return replace(write, when=without(write.when, RevisionIs))
        return write

    return each_write(change)


def early_answers(chosen: Callable[[Write], bool]) -> AbstractContextManager[object]:
    """Some writes are answered a moment before they are sent. Whatever the process writes next keeps behind them."""
    write = FaultyStore.write
    under_way: WeakKeyDictionary[FaultyStore, asyncio.Future[Answer]] = WeakKeyDictionary()

    async def behind(
        before: asyncio.Future[Answer] | None, seconds: float, store: FaultyStore, writes: Sequence[Write]
    ) -> Answer:
        if before is not None:
            await asyncio.wait((before,))
        await asyncio.sleep(seconds)
        return await write(store, *writes)

    def planted(store: FaultyStore, *writes: Write) -> Awaitable[Answer]:
        before = under_way.get(store)
        if any(map(chosen, writes)):
            late = under_way[store] = asyncio.ensure_future(behind(before, MOMENT_SECONDS, store, writes))
            late.add_done_callback(lambda done: done.exception())
            answer: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
            answer.set_result([None] * len(writes))
            return answer
        return asyncio.ensure_future(behind(before, 0, store, writes)) if before is not None else write(store, *writes)

    return mock.patch.object(FaultyStore, "write", planted)


def early_intent() -> AbstractContextManager[object]:
    """A step that may happen at most once starts a moment before its intent is durable."""

    def is_intent(write: Write) -> bool:
        return is_segment(write) and any(isinstance(entry, Intended) for entry in decode_entries(write.item.body))

    return early_answers(is_intent)


def open_gate() -> AbstractContextManager[object]:
    """What follows a commit begins a moment before it is durable."""
    return early_answers(is_segment)


def early_acknowledgement() -> AbstractContextManager[object]:
    """A message leaves the inbox just before what it led to is committed."""

    async def one_by_one(send: Send, first: list[Write], then: list[Write]) -> Answer:
        await send(*first)
        return [*await send(*then)]

    def change(send: Send, writes: tuple[Write, ...]) -> Awaitable[Answer]:
        taken = [write for write in writes if isinstance(write, Delete)]
        rest = [write for write in writes if not isinstance(write, Delete)]
        return one_by_one(send, taken, rest) if taken and rest else send(*writes)

    return at_the_store(change)


def is_renewal(write: Write) -> bool:
    return isinstance(write, Update) and write.owner is UNSET and write.lease_until is not UNSET


def stubborn_renewal() -> AbstractContextManager[object]:
    """Whoever is refused the renewal of his lease goes on as if he had it."""

    async def sent(send: Send, writes: Sequence[Write]) -> Answer:
        try:
            return await send(*writes)
        except Refused:
            return [None]

    def change(send: Send, writes: tuple[Write, ...]) -> Awaitable[Answer]:
        return sent(send, writes) if is_renewal(writes[0]) else send(*writes)

    return at_the_store(change)


def forgetful_start() -> AbstractContextManager[object]:
    """A start does not look whether the execution is there already."""

    def change(write: Write) -> Write:
        return Put(write.item, ALWAYS) if isinstance(write, Put) and write.item.sort == HEAD else write

    return each_write(change)


# ── Inside the engine ───────────────────────────────────────────────────────────────────────────────────────────────


def no_fence() -> AbstractContextManager[object]:
    """A takeover does not fence off the owner before."""

    async def fence(_journal: Journal, died_by: int | None = None) -> None:
        pass

    return mock.patch.object(Journal, "fence", fence)


def born_twice() -> AbstractContextManager[object]:
    """A start under way is looked at by others of the same process, who take its lease for abandoned."""
    return mock.patch.object(Creations, "postpones", return_value=False)


def blind_sweep() -> AbstractContextManager[object]:
    """The sweep finds only leases that were left behind."""
    consider = Sweeper._consider

    def planted(sweeper: Sweeper, head: Item, living: dict[str, bool]) -> None:
        if head.owner is not None:
            consider(sweeper, head, living)

    return mock.patch.object(Sweeper, "_consider", planted)


def early_timer() -> AbstractContextManager[object]:
    """Timers come a second early."""
    start = Activation.start_timer
    return mock.patch.object(Activation, "start_timer", lambda body, when, handle: start(body, when - 1, handle))


def shuffled_replay() -> AbstractContextManager[object]:
    """Replay delivers outcomes by name, not in the order in which they were recorded."""
    load = Journal.load

    async def planted(journal: Journal) -> None:
        await load(journal)
        journal.entries.sort(key=lambda entry: getattr(entry, "op", ""), reverse=True)

    return mock.patch.object(Journal, "load", planted)


def lost_outcome() -> AbstractContextManager[object]:
    """Whoever reads a journal overlooks its last entry."""
    load = Journal.load

    async def planted(journal: Journal) -> None:
        await load(journal)
        journal.entries = journal.entries[:-1]

    return mock.patch.object(Journal, "load", planted)


def repeated_signal() -> AbstractContextManager[object]:
    """A repeat of a signal is taken for another one."""
    deliver = Execution.deliver

    def planted(execution: Execution, arrival: Any) -> bool:
        if isinstance(arrival.entry, Received):
            execution._seen.clear()
        return deliver(execution, arrival)

    return mock.patch.object(Execution, "deliver", planted)


def another_child() -> AbstractContextManager[object]:
    """A child gets a new id each time it is started."""
    child_id = children.child_id
    return mock.patch.object(children, "child_id", lambda *operation: f"{child_id(*operation)} {ids.new_id()}")


def unrecognised_start() -> AbstractContextManager[object]:
    """A start sent again is not recognised by what the first one has written."""

    def planted(there: Item, *_asked: Any) -> Item:
        raise launching.IdempotencyMismatch(f"{there.partition} is there")

    return mock.patch.object(launching, "_same_execution", planted)


def forgotten_attempts() -> AbstractContextManager[object]:
    """Failed attempts before a crash are not counted."""
    begin = Execution.begin

    def planted(execution: Execution, entries: Sequence[Any], now: int, **options: Any) -> None:
        begin(execution, [entry for entry in entries if not isinstance(entry, Tried)], now, **options)

    return mock.patch.object(Execution, "begin", planted)


def unordered_messages() -> AbstractContextManager[object]:
    """Messages are named without regard to the order in which they are sent."""
    return mock.patch.object(Sender, "next_sort", side_effect=lambda: f"i#{ids.new_id()}")
