"""Executions that no worker has claimed, and that something is due for: paused and terminated ones."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from holdfast.errors import ExecutionTerminated, Refused
from holdfast.flow.record import QUEUED
from holdfast.items import AllOf, EpochIs, Item, RevisionIs, StatusIn, Update
from holdfast.kernel.outcomes import Blocked
from holdfast.kernel.ownership import BLOCKED_RECHECK_MS
from holdfast.replay.entries import Entry
from holdfast.replay.journal import Journal, segment_sort
from holdfast.replay.program import Effect
from holdfast.replay.requests import RUNNING, Raised
from holdfast.workflows.queueing import is_waiting
from holdfast.workflows.record import PAUSED, READY, TERMINATED, decode_record

if TYPE_CHECKING:
    from holdfast.kernel.host import Host
    from holdfast.workflows.execution import Execution

TERMINATOR: Final = "terminated"
"""The name under which a terminated execution's journal is closed."""

MOST_PARTINGS: Final = 5
"""So often a worker tries to find the children of a terminated execution: one that dies of it shall not take the others
along."""

TakeUp = Callable[[Item, "Host"], Awaitable["Execution"]]


async def attend(head: Item, take_up: TakeUp, host: Host) -> None:
    """Do what is due about a paused or terminated execution. Every write is refused if another process was faster.

    ``take_up`` makes the execution from its head, not begun.
    """
    now = host.clock.now_ms()
    if head.due_at is None or head.due_at > now:
        return
    with contextlib.suppress(Refused):
        match head.status:
            case status if status == PAUSED:
                await _wake_or_leave(head, host, now)
            case status if status == TERMINATED:
                await _part_from_children(head, take_up, host, now)
            case _:
                pass


async def _wake_or_leave(head: Item, host: Host, now: int) -> None:
    """A paused execution whose time has run out goes on, to its end, or waits for its slot again. Until then there is
    nothing to do for it.
    """
    deadline_at = decode_record(head.body).deadline_at
    as_seen = AllOf((StatusIn((PAUSED,)), RevisionIs(head.revision), EpochIs(head.epoch)))
    if deadline_at is not None and deadline_at <= now:
        status = QUEUED if is_waiting(head) else READY
        await host.home.store.write(
            Update(partition=head.partition, when=as_seen, status=status, due_at=now, add_revision=1)
        )
        host.check_at(head.partition, now)
    elif head.owner is None:
        await host.home.store.write(Update(partition=head.partition, when=as_seen, due_at=deadline_at))


async def _part_from_children(head: Item, take_up: TakeUp, host: Host, now: int) -> None:
    """Let those go that a terminated execution waited for. Which ones they are follows from its journal.

    No other worker tries meanwhile, and one that dies of it has counted the try. What is sent twice is recognised.
    """
    store, partition = host.home.store, head.partition
    later = Update(
        partition=partition,
        when=AllOf((StatusIn((TERMINATED,)), EpochIs(head.epoch))),
        due_at=now + host.limits.lease_ms,
    )
    try:
        program = await take_up(head, host)
    except Blocked:  # a worker that has its code does it
        await store.write(replace(later, due_at=now + BLOCKED_RECHECK_MS))
        return
    await store.write(replace(later, add_epoch=1))
    journal = Journal(store, partition, program.run, TERMINATOR, head.epoch)
    await journal.load()
    if await _tries(head, journal, program.run, host) < MOST_PARTINGS:
        await _part(program, journal.entries, now)
    await store.write(Update(partition=partition, when=EpochIs(head.epoch + 1), due_at=None))


async def _tries(head: Item, journal: Journal, run: int, host: Host) -> int:
    """How often it was tried since the journal was closed, which is done now if its terminator has died."""
    if journal.position > 0:
        last = await host.home.store.get(head.partition, segment_sort(run, journal.position - 1))
        if last is not None and last.owner == TERMINATOR:
            return head.epoch - last.epoch
    await journal.fence()
    return 0


async def _part(program: Execution, entries: Sequence[Entry], now: int) -> None:
    program.begin(entries, now)
    try:
        if program.activation.outcome is RUNNING:
            program.activation.outcome = Raised(ExecutionTerminated("it was terminated"))
        asked = program.asked()
        effects = () if asked is None else asked.effects
        await asyncio.gather(*(effect.perform() for effect in effects if isinstance(effect, Effect)))
    finally:
        program.evict()
