"""A turn's way through a program: what has come goes in, what it asks for is made durable, and then it happens."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from holdfast.clock import elapsed_seconds
from holdfast.coordination.lease import Fenced
from holdfast.errors import StoreError
from holdfast.kernel import ownership
from holdfast.kernel.outcomes import Blocked
from holdfast.replay.contest import contest
from holdfast.replay.entries import DELIVERIES, Tried
from holdfast.replay.program import Contested, Effect, SqlEffect
from holdfast.replay.transact import transact

if TYPE_CHECKING:
    from holdfast.kernel.host import Host
    from holdfast.replay.entity import JournaledEntity
    from holdfast.replay.program import Arrival
    from holdfast.replay.work import Work


# ── Run ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


def advance(partition: str, work: Work, host: Host) -> None:
    """Deliver all that has arrived, then what has fallen due, one by one, each to quiescence; gather what is asked for.

    In this order: what an attempt came to says that the timer before it, which may be due as well, means nothing.
    """
    began = elapsed_seconds()
    while work.arrivals:  # more may come while these are delivered
        arrivals, work.arrivals = work.arrivals, ()
        for arrival in arrivals:
            _deliver(arrival, work)
    if work.timers and work.is_due(now := host.clock.now_ms()):
        _gather(work)  # what is asked for only now begins by that, whatever an earlier attempt's timer says
        _fall_due(now, work)
    _gather(work)
    if elapsed_seconds() - began > host.limits.stalled_seconds:
        report_stall(partition, began, host)


def _fall_due(now: int, work: Work) -> None:
    due = work.pop_due(now)
    for place, (_, op) in enumerate(due):
        match work.program.due(op, now):
            case None:
                pass
            case Contested() as contested:
                work.ask(contested)
                for later in due[place + 1 :]:  # after it, so that they come in the order of their times
                    work.add_timer(*later)
                return
            case Effect() | SqlEffect() as effect:
                work.ask(effect)
            case arrival:
                _deliver(arrival, work)


def report_stall(partition: str, began: float, host: Host) -> None:
    """Tell of code that has kept the loop since ``began``."""
    host.telemetry.emit("loop_stalled", partition=partition, seconds=round(elapsed_seconds() - began, 3))


def _deliver(arrival: Arrival, work: Work) -> None:
    entry = arrival.entry
    if isinstance(entry, DELIVERIES):
        if work.program.deliver(arrival):
            work.journal.record(entry)
        return
    work.journal.record(entry)
    if isinstance(entry, Tried):
        work.add_timer(entry.again_at, entry.op)


def _gather(work: Work) -> None:
    """Take in what the program asks for. Raises ``Blocked`` before anything is made of it if its code does not fit."""
    asked = work.program.asked()
    if asked is None:
        return
    for mark in asked.marks:
        work.journal.record(mark)
    for note in asked.notes:
        work.journal.note(note)
    for timed in asked.timers:
        work.add_timer(timed.due_at, timed.op)
    for op in asked.withdrawn:
        work.withdraw(op)
    if asked.mismatch is not None:
        raise Blocked(asked.mismatch)
    work.writes += (*asked.writes,)
    if asked.effects:
        work.ask(*asked.effects)


# ── Commit ──────────────────────────────────────────────────────────────────────────────────────────────────────────


async def commit(entity: JournaledEntity, work: Work, host: Host) -> None:
    """Make everything recorded durable, intents included, before any effect starts (G7)."""
    if work.flushing is not None:
        await asyncio.wait((work.flushing,))
    hold = ownership.ours(entity)  # else what the flush was to write may be missing: nothing may follow it
    for effect in work.pending:
        if isinstance(effect, Effect) and effect.intent is not None:
            work.journal.record(effect.intent)
    if work.has_unwritten:
        began = elapsed_seconds() if host.telemetry.is_detailed else None
        await work.journal.commit(*work.take_others())
        if began is not None:
            ownership.committed(began, host)
        hold = ownership.ours(entity)
    now = host.clock.now_ms()
    if hold.due_at is None or hold.due_at > now:
        hold, now = await ownership.cover(entity, host), host.clock.now_ms()
    while not ownership.lasts(hold, now, host):
        hold, now = await ownership.confirm(entity, host), host.clock.now_ms()


def flush(entity: JournaledEntity, work: Work, host: Host) -> None:
    """Make what is recorded durable without waiting for it: nothing depends on it yet."""
    if work.flushing is None and not entity.lost:
        work.flushing = asyncio.get_running_loop().create_task(_flush(entity, work, host))


async def _flush(entity: JournaledEntity, work: Work, host: Host) -> None:
    began = elapsed_seconds() if host.telemetry.is_detailed else None
    try:
        await work.journal.commit(*work.take_others())
        if began is not None:
            ownership.committed(began, host)
    except (StoreError, Fenced):
        entity.lose()
    finally:
        work.flushing = None
        entity.wake()


async def start(entity: JournaledEntity, work: Work, host: Host) -> bool:
    """Let the effects happen: concurrently, or inside the store's own transaction, one after the other, as what is
    contested is decided. Answers whether the program has gone on meanwhile.
    """
    effects, work.pending = work.pending, ()
    goes_on = False
    for effect in effects:
        match effect:
            case Effect():
                entity.start(effect, work)
            case SqlEffect() if work.program.wants(effect.op):  # an earlier one may have made the body give up on it
                await transact(effect, work, host)
                goes_on = True
            case Contested() if work.program.wants(effect.op):
                await contest(effect, entity, work)
                goes_on = True
            case SqlEffect() | Contested():
                pass
    return goes_on
