"""The turn: the only way an entity moves. ``claim → read → run → commit → settle``, top to bottom.

Nothing here trusts memory over the store: every write is conditional on our epoch, so a turn that has lost its lease
finds out at its next write (``Fenced``), forgets what it had and leaves the entity to the newer owner (G3).
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from msgspec import UNSET
from msgspec.structs import replace

from holdfast.clock import elapsed_seconds
from holdfast.coordination.inbox import INBOX_PREFIX, UNRUNG, USED
from holdfast.coordination.lease import Claimed, Closed, Fenced, Held
from holdfast.errors import StoreError
from holdfast.items import Item
from holdfast.kernel import ownership
from holdfast.kernel.model import Blocked
from holdfast.kernel.stages import Ended, Rest
from holdfast.replay import deaths, handover
from holdfast.replay.entries import DELIVERIES, Tried
from holdfast.replay.journal import FIRST_EPOCH, Journal
from holdfast.replay.journaled import Journaled
from holdfast.replay.program import Deadly, Effect, SqlEffect
from holdfast.replay.transact import transact

if TYPE_CHECKING:
    from collections.abc import Sequence

    from holdfast.items import Write
    from holdfast.kernel.host import Host
    from holdfast.kernel.model import Conclusion
    from holdfast.replay.program import Arrival, Program

LONGEST_TAIL_ENTRIES: Final = 50
"""So many last entries ride in the head when an entity ends; more of them get a segment of their own."""


async def turn(entity: Journaled, host: Host) -> None:
    """Work on one entity until it waits for something far away, has ended, or belongs to somebody else."""
    try:
        if not entity.held and (await handover.handed_over(entity, host) or not await claim(entity, host)):
            return
        program = entity.program or await read(entity, host)
        while True:
            if host.line.first == entity.partition:
                deaths.leave_line(entity, host)
            await receive(entity, program, host)
            run(entity, program, host)
            if entity.pending and not (entity.paused or host.draining):
                await commit(entity, host)
                if await start(entity, program, host):
                    continue
            elif program.concluded() and not (entity.busy or entity.paused or entity.interrupted):
                if await conclude(entity, program, host):
                    return
                continue
            if not await wait(entity, host) and await settle(entity, host):
                return
    except Fenced:
        host.telemetry.emit("fenced", partition=entity.partition)
        host.forget(entity)
    except Deadly as deadly:
        entity.unread = False
        await deaths.park(entity, deadly, host)
    except Blocked as blocked:
        entity.unread = False
        await handover.leave_to_other_code(entity, blocked, host)
    except StoreError as error:
        host.failed(entity, error)


# ── claim ───────────────────────────────────────────────────────────────────────────────────────────────────────────


async def claim(entity: Journaled, host: Host) -> bool:
    """Become the owner. What is still in memory stays valid if nobody else was in between."""
    programs = entity.programs
    match await ownership.claim(entity, host, claimable=programs.claimable, running=programs.running):
        case Claimed(item, takeover, died):
            if takeover or item.epoch != entity.epoch + 1:
                entity.forget()
                entity.taken_over, entity.died = takeover, died
            entity.hold(item)
            return True
        case Held():
            host.forget(entity)
            return False
        case Closed(head):
            host.forget(entity)
            if head is not None:
                await programs.attend(head, host)
            return False


# ── read ────────────────────────────────────────────────────────────────────────────────────────────────────────────


async def read(entity: Journaled, host: Host) -> Program:
    """Load the journal, once, and replay it. After a takeover it is fenced first: the last owner may be awake (G3)."""
    assert entity.head is not None
    try:
        program = entity.programs.open(entity.head, host)
    except Blocked as blocked:
        if entity.taken_over:
            await handover.fence(entity, blocked.run, host)
        raise
    home = host.home
    journal = Journal(home.store, entity.partition, program.run, home.owner, entity.epoch, home.bounds)
    if entity.epoch != FIRST_EPOCH:
        await journal.load()
    entity.unread = entity.unread or not entity.fresh
    entity.journal = journal
    await deaths.fence(entity, journal, host)
    entity.fresh, entity.taken_over, entity.died = False, False, False
    began = elapsed_seconds()
    program.begin(journal.entries, host.clock.now_ms(), deaths=journal.deaths)
    if not journal.entries and elapsed_seconds() - began > host.limits.stalled_seconds:
        _report_stall(entity, began, host)  # a long replay is no fault of the body
    journal.entries = []
    entity.program = program
    deaths.check(journal, program, host)
    entity.head = None
    if program.misfit is not None:
        raise Blocked(program.misfit)
    return program


# ── run ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


async def receive(entity: Journaled, program: Program, host: Host) -> None:
    """Look at the head and the inbox again if somebody rang. The head first: a later ring moves its revision on."""
    if entity.unread and entity.flushing is not None:  # it may take messages out of the inbox, or fail
        await asyncio.wait((entity.flushing,))
    if entity.lost:
        raise Fenced(f"{entity.partition}: its lease could not be renewed, or its journal not written")
    if entity.broken is not None:
        raise entity.broken
    confirmed, entity.confirmed = entity.confirmed, False
    if not entity.unread:
        return
    entity.unread = False
    if not confirmed:
        await _look_at_head(entity, host)
    if entity.revision == UNRUNG:
        return
    after: str | None = None
    while True:
        page = await host.home.store.query(entity.partition, prefix=INBOX_PREFIX, after=after)
        for message in page.items:
            _take_in(message, entity, program)
        if (after := page.cursor) is None:
            return


async def _look_at_head(entity: Journaled, host: Host) -> None:
    head = await host.home.store.get(entity.partition)
    if head is None or head.epoch != entity.epoch:
        raise Fenced(f"{entity.partition} has a newer owner")
    entity.revision = head.revision
    entity.paused = head.status not in entity.programs.claimable


def _take_in(message: Item, entity: Journaled, program: Program) -> None:
    if message.sort in entity.receipts or message.status == USED:
        return
    entity.receipts[message.sort] = program.acknowledge(message)
    if (arrival := program.read(message)) is not None:
        entity.arrivals.append(arrival)


def run(entity: Journaled, program: Program, host: Host) -> None:
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
    if program.misfit is not None:
        raise Blocked(program.misfit)  # before anything is made of what it asked for (G13)
    if elapsed_seconds() - began > host.limits.stalled_seconds:
        _report_stall(entity, began, host)


def _fall_due(now: int, entity: Journaled, program: Program) -> None:
    for op in entity.pop_due(now):
        match program.due(op, now):
            case None:
                pass
            case Effect() | SqlEffect() as effect:
                entity.pending.append(effect)
            case arrival:
                _deliver(arrival, entity, program)


def _report_stall(entity: Journaled, began: float, host: Host) -> None:
    host.telemetry.emit("loop_stalled", partition=entity.partition, seconds=round(elapsed_seconds() - began, 3))


def _deliver(arrival: Arrival, entity: Journaled, program: Program) -> None:
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


def _gather(entity: Journaled, program: Program) -> None:
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


# ── commit ──────────────────────────────────────────────────────────────────────────────────────────────────────────


async def commit(entity: Journaled, host: Host) -> None:
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


def flush(entity: Journaled) -> None:
    """Make everything recorded durable without waiting for it: nothing depends on it yet."""
    if entity.has_unwritten and not entity.lost and entity.flushing is None:
        entity.flushing = asyncio.get_running_loop().create_task(_flush(entity))


async def _flush(entity: Journaled) -> None:
    assert entity.journal is not None
    try:
        await entity.journal.commit(*entity.take_others())
    except (StoreError, Fenced):
        entity.lose()
    finally:
        entity.flushing = None
        entity.wake()


async def start(entity: Journaled, program: Program, host: Host) -> bool:
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


# ── settle ──────────────────────────────────────────────────────────────────────────────────────────────────────────


async def wait(entity: Journaled, host: Host) -> bool:
    """Wait for something to do; false if nothing is under way and nothing comes for a while."""
    flush(entity)
    now, due = host.clock.now_ms(), entity.next_due()
    near_seconds = None if due is None else max(0, due - now) / 1000
    letting_go = entity.paused or host.draining
    linger = host.patience_seconds(near_seconds)
    if entity.busy:
        timeout = None if host.draining else near_seconds
    elif letting_go:
        timeout = 0.0
    else:
        timeout = linger if near_seconds is None else min(near_seconds, linger)
    if await entity.woken(timeout) or entity.busy or entity.lost:
        return True
    return not letting_go and near_seconds is not None and near_seconds <= linger


async def settle(entity: Journaled, host: Host) -> bool:
    """Let go of the lease and say when to look again. Refused if somebody rang meanwhile: then there is more to do."""
    due = host.clock.now_ms() if entity.interrupted else entity.next_due()
    assert entity.program is not None
    assert entity.journal is not None
    if not (entity.paused or host.draining) and (reason := entity.program.stuck()) is not None:
        raise Blocked(reason)  # not before: a thread that answers meanwhile is told of by the body itself
    if entity.journal.has_many_notes:
        entity.journal.record_notes()
        await entity.journal.commit()
    entity.program.keep_notes(entity.journal.notes(), entity.journal.count)
    left = Rest(
        UNSET if entity.paused else entity.programs.suspended,
        UNSET if entity.paused else due,  # `attend` finds out when a paused one is to be looked at
        body=entity.program.unsaved,
    )
    if not await ownership.leave(entity, left, host):
        return False
    entity.program.saved()
    host.suspended(entity, None if entity.paused else due)
    return True


async def conclude(entity: Journaled, program: Program, host: Host) -> bool:
    """Write the end: outcome, last entries and what others must learn of it, in one write with the release."""
    journal = entity.journal
    assert journal is not None
    others = entity.others()
    if host.home.bounds is not None and not host.home.bounds.fit(others):
        await journal.commit(*entity.take_others())
        others = ()
    elif len(journal.buffer) > LONGEST_TAIL_ENTRIES:
        await journal.commit()
    tail = journal.take()
    conclusion = binding(program.conclusion(tail, host.clock.now_ms()), others, host)
    if not await ownership.leave(entity, Ended(conclusion, others), host):
        journal.buffer = tail
        return False
    host.concluded(entity, conclusion)
    return True


def binding(conclusion: Conclusion, others: Sequence[Write], host: Host) -> Conclusion:
    """What expires goes only if the entities that wait for it are told in the same write; else it stays."""
    if conclusion.expires_at is None or host.home.bounds is None:
        return conclusion
    writes = [*others, *(write for _, message in conclusion.posts for write in message)]
    return conclusion if host.home.bounds.fit(writes) else replace(conclusion, expires_at=None)
