"""A turn's way through a program: what has come goes in, what it asks for is made durable, and then it happens."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from holdfast.clock import elapsed_seconds
from holdfast.coordination.lease import Fenced
from holdfast.errors import StoreError
from holdfast.kernel import ownership
from holdfast.kernel.outcomes import Blocked
from holdfast.replay.entries import DELIVERIES, Tried
from holdfast.replay.program import Effect, SqlEffect
from holdfast.replay.transact import transact

if TYPE_CHECKING:
    from holdfast.kernel.host import Host
    from holdfast.replay.entity import JournaledEntity
    from holdfast.replay.program import Arrival, Program


# ── Run ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


def advance(entity: JournaledEntity, program: Program, host: Host) -> None:
    """Deliver all that has arrived, then what has fallen due, one by one, each to quiescence; gather what is asked for.

    In this order: what an attempt came to says that the timer before it, which may be due as well, means nothing.
    """
    began = elapsed_seconds()
    for arrived in entity.arrivals:  # what is appended meanwhile too
        _deliver(arrived, entity, program)
    entity.arrivals.clear()
    now = host.clock.now_ms()
    if entity.is_due(now):
        _gather(entity, program)  # what is asked for only now begins by that, whatever an earlier attempt's timer says
        _fall_due(now, entity, program)
    _gather(entity, program)
    if program.mismatch is not None:
        raise Blocked(program.mismatch)  # before anything is made of what it asked for (G13)
    if elapsed_seconds() - began > host.limits.stalled_seconds:
        report_stall(entity, began, host)


def _fall_due(now: int, entity: JournaledEntity, program: Program) -> None:
    for op in entity.pop_due(now):
        match program.due(op, now):
            case None:
                pass
            case Effect() | SqlEffect() as effect:
                entity.pending.append(effect)
            case arrival:
                _deliver(arrival, entity, program)


def report_stall(entity: JournaledEntity, began: float, host: Host) -> None:
    """Tell of code that has kept the loop since ``began``."""
    host.telemetry.emit("loop_stalled", partition=entity.partition, seconds=round(elapsed_seconds() - began, 3))


def _deliver(arrival: Arrival, entity: JournaledEntity, program: Program) -> None:
    journal = entity.journal
    assert journal is not None
    entry = arrival.entry
    if isinstance(entry, DELIVERIES):
        if program.deliver(arrival):
            journal.record(entry)
        return
    journal.record(entry)
    if isinstance(entry, Tried):
        entity.add_timer(entry.again_at, entry.op)


def _gather(entity: JournaledEntity, program: Program) -> None:
    asked = program.asked()
    if asked is None:
        return
    assert entity.journal is not None
    for mark in asked.marks:
        entity.journal.record(mark)
    for note in asked.notes:
        entity.journal.note(note)
    for timed in asked.timers:
        entity.add_timer(timed.due_at, timed.op)
    for op in asked.withdrawn:
        entity.withdraw(op)
    entity.writes += asked.writes
    entity.pending += asked.effects


# ── Commit ──────────────────────────────────────────────────────────────────────────────────────────────────────────


async def commit(entity: JournaledEntity, host: Host) -> None:
    """Make everything recorded durable, intents included, before any effect starts (G7)."""
    assert entity.journal is not None
    if entity.flushing is not None:
        await asyncio.wait((entity.flushing,))
    if entity.lost:  # what the flush was to write may be missing: nothing may follow it
        raise Fenced(f"{entity.partition}: its journal could not be written")
    for effect in entity.pending:
        if isinstance(effect, Effect) and effect.intent is not None:
            entity.journal.record(effect.intent)
    if entity.has_unwritten:
        await entity.journal.commit(*entity.take_others())
    if entity.due_at is None or entity.due_at > host.clock.now_ms():
        await ownership.cover(entity, host)
    while host.clock.now_ms() >= entity.lease_until:
        await ownership.confirm(entity, host)


def flush(entity: JournaledEntity) -> None:
    """Make everything recorded durable without waiting for it: nothing depends on it yet."""
    if entity.has_unwritten and not entity.lost and entity.flushing is None:
        entity.flushing = asyncio.get_running_loop().create_task(_flush(entity))


async def _flush(entity: JournaledEntity) -> None:
    assert entity.journal is not None
    try:
        await entity.journal.commit(*entity.take_others())
    except (StoreError, Fenced):
        entity.lose()
    finally:
        entity.flushing = None
        entity.wake()


async def start(entity: JournaledEntity, program: Program, host: Host) -> bool:
    """Let the effects happen: beside each other, or inside the store's own transaction, one after the other. Answers
    whether the program has gone on meanwhile.
    """
    effects, entity.pending = entity.pending, []
    goes_on = False
    for effect in effects:
        match effect:
            case Effect():
                entity.start(effect)
            case SqlEffect() if program.wants(effect.op):  # an earlier one may have made the body give up on it
                await transact(effect, entity, program, host)
                goes_on = True
            case SqlEffect():
                pass
    return goes_on
