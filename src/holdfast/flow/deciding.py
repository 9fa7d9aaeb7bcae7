"""A round of a gate: look who has ended, choose who begins, and write both in one commit before anything begins.

Where a write of several items costs nothing more, what begins in this process begins by that same commit.

Each step depends on the heads of executions alone. What is in memory, what was woken and what a place says only decide
how soon a step comes. These are the writes, and what continues them if the process stops around one:

| it stops | what is there | what continues it |
|---|---|---|
| before the decision | places, or slots of executions that have ended | the next owner reads all places and slots |
| at the decision, and the answer is lost | the decision or not, all of it | it is sent again under the same epoch |
| after the decision, before an execution begins | a slot whose execution waits | the next owner begins it |
| an hour, and then it writes its decision | a newer owner's | its epoch refuses it (G3) |
| not, but its request arrives behind a later one | a later decision | its epoch refuses it, on AWS |
| an hour, and then it begins an execution | the execution has another epoch or status | these refuse it |
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from holdfast.coordination.lease import Fenced
from holdfast.errors import Refused, StoreError
from holdfast.flow.beginning import begin, decide_and_begin, is_written, moved_on, next_head, watch
from holdfast.flow.choose import Waiting
from holdfast.flow.early import as_the_head_says, look_at_old, look_for_early, next_look_at, note_old
from holdfast.flow.purging import is_under_way, line_up, purge_some
from holdfast.flow.record import (
    PLACE_PREFIX,
    QUEUED,
    Slot,
    heads_of,
    shard_of,
    shards_of,
    waiting_of,
)
from holdfast.items import Delete, Item
from holdfast.kernel.outcomes import AGAIN, Idle, Next
from holdfast.paging import items
from holdfast.persist import write_until_known

if TYPE_CHECKING:
    from holdfast.flow.ends import Ends
    from holdfast.flow.gate import Gate
    from holdfast.flow.record import Declared
    from holdfast.kernel.host import Host

GATHER_MS: Final = 50
"""Where writes are paid, this much time lies between two decisions, which gather meanwhile."""

MOST_CHOSEN: Final = 200
"""The most executions that one decision lets begin."""

LOOK_MS: Final = 5_000
PAID_LOOK_MS: Final = 10_000
"""So often all slots are looked at, in case a hint was lost; more seldom where reads are paid."""

BEGIN_AGAIN_MS: Final = 1_000
"""An execution with a slot that has not begun is begun again after this time. It may wait for room in other processes,
and each try wakes them.
"""

FREED_MS: Final = 200
"""So long a slot that is free is in the head of the queue still, if no decision is written before: the next one, or the
next start, takes it along. A process that takes the queue over looks at all slots by itself.
"""

SCAN_SHARE: Final = 20
"""All places are read at most for this part of the time."""


class Decision(Struct):
    """What changes: slots that are free, executions that begin, places that are of no use any more. ``begun`` are those
    that have begun in the same write.
    """

    freed: list[str]
    chosen: list[Waiting]
    gone: list[Waiting]
    unbegun: list[str]
    begun: frozenset[str] = frozenset()


async def run_round(gate: Gate, declared: Declared, closed: Sequence[str], ends: Ends, host: Host) -> Next:
    """One round. ``closed`` are the statuses of executions that are over."""
    gate.open_books.rests = False
    books, now = gate.open_books, host.clock.now_ms()
    if host.home.writes_are_paid and now < books.decided_at + GATHER_MS:
        await asyncio.sleep((books.decided_at + GATHER_MS - now) / 1000)
    decision = Decision([], [], [], [])
    await _look(gate, decision, closed, host)
    await read_places(gate, host)
    decision.gone += await look_at_old(gate, host)
    decision.gone += await look_for_early(gate, ends, host)
    decision.gone += await purge_some(gate, ends, host)
    picked = await _choose(gate, decision, host)
    full = declared.most_waiting is not None and books.waiting >= declared.most_waiting
    if decision.freed and books.freed_at is None:
        books.freed_at = now
    is_time = books.freed_at is not None and now >= books.freed_at + FREED_MS
    if is_time or decision.chosen or decision.gone or full != books.full or not books.is_told:
        books.full = full
        await _write(gate, decision, declared, host)
    await _begin(gate, decision, host)
    if picked == MOST_CHOSEN or decision.gone or books.suspects or books.came or books.purging:
        return AGAIN
    return _next(gate, host)


async def read_places(gate: Gate, host: Host, *, at_once: bool = False) -> None:
    """Take in the places that this process has written, and those of others if they may have come: after a slow reading
    not ``at_once``, unless it has to be.
    """
    books, now = gate.open_books, host.clock.now_ms()
    came, books.came = books.came, []
    for waiting in came:
        books.early.pop(waiting.sort, None)
        line_up(books, waiting)
    if not books.lookup or (not at_once and now < books.scanned_at + SCAN_SHARE * books.scan_ms):
        return
    books.lookup = False
    books.unseen.clear()
    left = {*books.chooser.places, *books.early, *books.seen}
    for shard in shards_of(gate.partition):
        async for item in items(host.home.store, shard, prefix=PLACE_PREFIX):
            left.discard(item.sort)
            if not books.has_begun(waiting := waiting_of(item)) and waiting.sort not in books.early:
                line_up(books, waiting)
                if host.home.writes_are_paid:
                    note_old(books, waiting, now)
    for place in left:  # who has ended what waited there has deleted its place, and perhaps did not tell us
        books.leave(place)
    books.scanned_at = host.clock.now_ms()
    books.scan_ms = books.scanned_at - now
    if books.purges_read_at is None:
        books.purges_read_at = books.scanned_at


async def _look(gate: Gate, decision: Decision, closed: Sequence[str], host: Host) -> None:
    """See which of the slots that may be free are so: the head of the execution says it, and no hint."""
    books, now = gate.open_books, host.clock.now_ms()
    if now >= books.looked_at + look_ms(host):
        books.lookup = True
        books.suspects |= set(books.held)
        books.looked_at = now
    suspects, books.suspects = sorted((books.suspects & books.held.keys()) - books.starting), set()
    for partition, head in zip(suspects, await heads_of(suspects, host.home), strict=True):
        slot = books.held[partition]
        if head is None or _is_over(head, slot, closed):
            del books.held[partition]
            books.begun_at.pop(partition, None)
            books.chooser.freed(slot.key)
            host.watchers.remove(partition, gate.partition)
            decision.freed.append(partition)
            continue
        watch(partition, gate, host)
        if head.status == QUEUED and now >= books.begun_at.get(partition, 0) + BEGIN_AGAIN_MS:
            decision.unbegun.append(partition)


def _is_over(head: Item, slot: Slot, closed: Sequence[str]) -> bool:
    """Whether a slot is free: its execution has ended, or waits again, for another one."""
    return head.status in closed or (head.status == QUEUED and head.epoch != slot.epoch)


async def _choose(gate: Gate, decision: Decision, host: Host) -> int:
    """Choose who begins. Those whose heads do not wait any more give their slots and tokens back. None is
    chosen by numbers that this process has changed since they were read.
    """
    books, now = gate.open_books, host.clock.now_ms()
    picked: list[Waiting] = []
    while (
        not books.is_changed and len(picked) < MOST_CHOSEN and (waiting := books.chooser.pick(now * 1000)) is not None
    ):
        picked.append(waiting)
    for waiting, head in zip(picked, await heads_of([each.partition for each in picked], host.home), strict=True):
        slot, waits = books.held.get(waiting.partition), as_the_head_says(waiting, head, gate, host)
        if head is None or waits is None or (slot is not None and slot.epoch == head.epoch):
            books.chooser.give_back(waiting)
            if head is None and host.home.writes_are_paid:
                books.put_aside(waiting, now)
            else:
                decision.gone.append(waiting)
            continue
        if waits.key != waiting.key:
            books.chooser.give_back(waiting)
            books.came.append(waits)
            continue
        if slot is not None:  # it was of an earlier wait, which is over
            books.chooser.freed(slot.key)
        books.held[waiting.partition] = Slot(waiting.key, head.epoch, now)
        decision.chosen.append(waiting)
    return len(picked)


async def _write(gate: Gate, decision: Decision, declared: Declared, host: Host) -> None:
    """Make the decision durable, before anything begins by it. Raises ``Fenced``."""
    async with gate.open_books.writing:
        await _write_alone(gate, decision, declared, host)


async def _write_alone(gate: Gate, decision: Decision, declared: Declared, host: Host) -> None:
    update = next_head(gate, declared, host, awake=host.home.writes_are_paid and is_busy(gate))
    together = () if host.home.writes_are_paid else _deletes(gate, decision)
    if decision.chosen and not host.home.writes_are_paid:
        chosen = [each.partition for each in decision.chosen]
        if (begun := await decide_and_begin((update, *together), chosen, gate, host)) is not None:
            decision.begun = begun
            moved_on(gate, update)
            return
    try:
        await write_until_known(host.home.store, update, *together, ours=partial(is_written, update, gate, host))
    except Refused as refused:
        raise Fenced(f"{gate.partition}: {refused}") from None
    moved_on(gate, update)


async def _begin(gate: Gate, decision: Decision, host: Host) -> None:
    held = gate.open_books.held
    waiting = [*decision.unbegun, *(each.partition for each in decision.chosen)]
    gate.open_books.begun_at.update(dict.fromkeys(waiting, host.clock.now_ms()))
    begins = (begin(each, held[each].epoch, gate, host) for each in waiting if each not in decision.begun)
    deletes = _deletes(gate, decision) if host.home.writes_are_paid else ()
    await asyncio.gather(*begins, *(_delete(each, host) for each in deletes))
    if decision.chosen:
        host.telemetry.emit("queue_admitted", partition=gate.partition, count=len(decision.chosen))


def _deletes(gate: Gate, decision: Decision) -> tuple[Delete, ...]:
    of_no_use = (*decision.chosen, *decision.gone)
    return tuple(Delete(f"{gate.partition}#{shard_of(each.partition)}", each.sort) for each in of_no_use)


async def _delete(delete: Delete, host: Host) -> None:
    with suppress(StoreError):  # a place that stays is found again, and is of no use then either
        await host.home.store.write(delete)


async def note_rest(gate: Gate, declared: Declared, host: Host) -> None:
    """Write that it is not awake any more, and which slots are free, unless its head says so. Raises ``Fenced``."""
    if gate.open_books.awake or gate.open_books.freed_at is not None:
        await _write(gate, Decision([], [], [], []), declared, host)


def _next(gate: Gate, host: Host) -> Idle:
    now = host.clock.now_ms()
    if not is_busy(gate) and gate.open_books.freed_at is None:
        return Idle(None, LOOK_MS / 1000)
    due_at = next_at(gate, host)
    if host.ends_at is not None:  # an invocation does not stay for it
        return Idle(due_at)
    return Idle(due_at, (due_at - now) / 1000 + 1)


def next_at(gate: Gate, host: Host) -> int:
    """When there is something to do without a hint (milliseconds)."""
    books, now = gate.open_books, host.clock.now_ms()
    times = [books.looked_at + look_ms(host)]
    if books.freed_at is not None:
        times.append(books.freed_at + FREED_MS)
    if (token_us := books.chooser.next_at(now * 1000)) is not None:
        times.append(-(-token_us // 1000))
    if (early_at := next_look_at(gate)) is not None:
        times.append(early_at)
    if books.lookup:
        times.append(books.scanned_at + SCAN_SHARE * books.scan_ms)
    return max(now, min(times))


def is_busy(gate: Gate) -> bool:
    """Whether something runs or waits in the queue."""
    return bool(gate.open_books.held or gate.open_books.waiting or is_under_way(gate.open_books))


def look_ms(host: Host) -> int:
    """How often all slots are looked at."""
    return PAID_LOOK_MS if host.home.reads_are_paid else LOOK_MS
