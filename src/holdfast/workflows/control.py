"""Changing an execution from outside: pause, resume, move, terminate. Each is one conditional write."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING

from msgspec import UNSET
from msgspec.structs import replace

from holdfast.coordination.lease import Fenced
from holdfast.errors import ExecutionTerminated, InvalidState, NotFound, Refused
from holdfast.failure import describe
from holdfast.flow.record import QUEUED, UNSEEN_MS, place_delete, place_put
from holdfast.items import UNOWNED, AllOf, EpochIs, Item, RevisionIs, StatusIn, Update
from holdfast.kernel.wake import wake
from holdfast.persist import write_for_caller
from holdfast.replay.entries import Entry
from holdfast.replay.journal import FIRST_EPOCH, Journal
from holdfast.workflows.ended_outside import Teller, let_expire
from holdfast.workflows.finding import head_of
from holdfast.workflows.history import load
from holdfast.workflows.operations.awaiting import awaiting
from holdfast.workflows.outcome_error import outcome_error
from holdfast.workflows.queueing import as_it_waits, is_waiting, tell_gate, tell_left
from holdfast.workflows.record import (
    CLAIMABLE,
    ENDED,
    OPEN,
    PAUSED,
    READY,
    TERMINATED,
    decode_record,
    describe_partition,
    encode_record,
    is_there,
    pinned_to,
    recorded_entries,
)
from holdfast.workflows.unclaimed import TERMINATOR

if TYPE_CHECKING:
    from holdfast.kernel.runtime import Runtime


async def pause(runtime: Runtime, partition: str) -> None:
    """Start no new effects until ``resume``; running ones finish and are recorded. One that waits in a queue keeps no
    place there.
    """
    running = Update(partition=partition, when=StatusIn(CLAIMABLE), status=PAUSED, add_revision=1)
    while True:
        while (head := await head_of(runtime, partition)).status == QUEUED:
            with suppress(Refused):  # it was changed meanwhile: look again
                await _pause_waiting(runtime, head)
                return
        try:
            await _change(runtime, partition, running, allowed=(PAUSED,))
        except InvalidState:
            if (await head_of(runtime, partition)).status != QUEUED:
                raise
        else:
            return


async def _pause_waiting(runtime: Runtime, head: Item) -> None:
    queued = decode_record(head.body).queued
    assert queued is not None, "only what has a queue is queued"
    update = Update(partition=head.partition, when=as_it_waits(head), status=PAUSED, add_revision=1)
    left = place_delete(head.partition, queued)
    await write_for_caller(runtime.home.store, update, left, ours=lambda _there: False)
    tell_left(head.partition, queued, runtime.home, runtime.host)
    wake(head.partition, runtime.home, runtime.host)


async def resume(runtime: Runtime, partition: str) -> None:
    """Resume a paused execution, or one that is parked because it killed its processes: deaths count from 0 again."""
    while (parked := await head_of(runtime, partition)).status in OPEN and decode_record(parked.body).parked:
        with suppress(Refused):  # it was changed meanwhile: look again
            await write_for_caller(
                runtime.home.store, _unparking(parked, runtime.clock.now_ms()), ours=lambda _there: False
            )
    while (paused := await head_of(runtime, partition)).status == PAUSED and is_waiting(paused):
        try:
            await _queue_again(runtime, paused)
        except Refused:
            continue  # it was changed meanwhile: look again
        return
    update = Update(
        partition=partition,
        when=AllOf((StatusIn((PAUSED,)), EpochIs(paused.epoch))),
        status=READY,
        due_at=runtime.clock.now_ms(),
        add_revision=1,
    )
    await _change(runtime, partition, update, allowed=(QUEUED, *CLAIMABLE))


async def _queue_again(runtime: Runtime, paused: Item) -> None:
    """Give an execution that waits its place again, behind those that have come since."""
    now, record = runtime.clock.now_ms(), decode_record(paused.body)
    assert record.queued is not None
    queued = replace(record.queued, since=max(now, record.starts_at))
    update = Update(
        partition=paused.partition,
        when=AllOf((RevisionIs(paused.revision), EpochIs(paused.epoch), StatusIn((PAUSED,)))),
        status=QUEUED,
        due_at=max(now, record.starts_at) if record.starts_at > now else now + UNSEEN_MS,
        body=encode_record(replace(record, queued=queued)),
        add_revision=1,
    )
    places = () if record.starts_at > now else (place_put(paused.partition, queued),)
    await write_for_caller(runtime.home.store, update, *places, ours=lambda _there: False)
    tell_gate(paused.partition, queued, runtime.home, runtime.host)


def _unparking(parked: Item, now: int) -> Update:
    """The write that lets a parked execution go on. A worker that is about to park it again is refused (G3)."""
    return Update(
        partition=parked.partition,
        when=AllOf((RevisionIs(parked.revision), EpochIs(parked.epoch), StatusIn(OPEN))),
        status=READY,
        owner=None,
        lease_until=None,
        due_at=now,
        body=encode_record(replace(decode_record(parked.body), parked=False)),
        add_revision=1,
        add_epoch=1,
    )


async def move(runtime: Runtime, partition: str, version: str) -> None:
    """Pin an execution to the code of this app: its own may be gone. Its journal stays, and goes on with it (G13).

    A worker that has the old code in memory finds the epoch moved on, and forgets the execution (G3).
    """
    own = "" if runtime.home.versions is None else runtime.home.versions.own
    while True:
        head = await head_of(runtime, partition)
        record = decode_record(head.body)
        if head.status in ENDED:
            raise InvalidState(f"{describe_partition(partition)} has ended as {head.status}")
        if pinned_to(record) == version:
            break  # it is moved already, or was asked for twice
        if is_waiting(head):
            assert record.queued is not None
            record = replace(record, queued=replace(record.queued, epoch=head.epoch + 1))
        if head.owner is not None:
            raise InvalidState(
                f"{describe_partition(partition)} is being worked on just now, by its own code, or its last worker has "
                "died and is about to be replaced; try again in a minute"
            )
        update = Update(
            partition=partition,
            when=AllOf((RevisionIs(head.revision), EpochIs(head.epoch), UNOWNED, StatusIn(OPEN))),
            due_at=UNSET if head.status == PAUSED else runtime.clock.now_ms(),
            body=encode_record(replace(record, moved_to=version, published=own)),
            add_revision=1,
            add_epoch=1,
        )
        try:
            await write_for_caller(runtime.home.store, update, ours=lambda _there: False)
        except Refused:
            continue  # it was moved just now, by another process or by us, or has changed: look again
        break
    wake(partition, runtime.home, runtime.host)


async def _change(runtime: Runtime, partition: str, update: Update, allowed: tuple[str, ...]) -> None:
    try:
        await write_for_caller(runtime.home.store, update, ours=lambda _there: False)
    except Refused as refused:
        if not is_there(refused.item, runtime.clock.now_ms()):
            raise NotFound(f"there is no {describe_partition(partition)}") from None
        if refused.item.status not in allowed:
            raise InvalidState(f"{describe_partition(partition)} is {refused.item.status}") from None
    wake(partition, runtime.home, runtime.host)


async def terminate(runtime: Runtime, partition: str, reason: str) -> None:
    """End the execution at once: no clean-up, no compensation. Its owner is fenced out (G3).

    If it has begun it stays due: a worker finds out which children it waited for, and lets them go.
    """
    while True:
        head = await head_of(runtime, partition)
        if head.status in ENDED:
            raise InvalidState(f"{describe_partition(partition)} has ended as {head.status}")
        record, now = decode_record(head.body), runtime.clock.now_ms()
        ended = replace(record, parked=False, waits=None, ended_at=now, error=describe(ExecutionTerminated(reason)))
        update = Update(
            partition=partition,
            when=AllOf((RevisionIs(head.revision), StatusIn(OPEN))),
            status=TERMINATED,
            owner=None,
            lease_until=None,
            due_at=None if head.epoch < FIRST_EPOCH else now,
            body=encode_record(ended),
            add_revision=1,
            add_epoch=1,
        )
        left = () if head.status != QUEUED or record.queued is None else (place_delete(partition, record.queued),)
        try:
            await write_for_caller(runtime.home.store, update, *left, ours=partial(_stands, update))
            break
        except Refused:
            continue  # it was changed meanwhile: look again
    if (tracer := runtime.telemetry.tracer) is not None:
        runtime.telemetry.trace(tracer.ended, partition, ended, TERMINATED)
    closed = replace(await head_of(runtime, partition), status=TERMINATED)
    entries = await _closed(runtime, closed, record.run)
    wake(partition, runtime.home, runtime.host)
    if left and record.queued is not None:
        tell_left(partition, record.queued, runtime.home, runtime.host)
    error = describe(outcome_error(TERMINATED, ended, runtime.registry.errors))
    teller = Teller(runtime.home, runtime.host, runtime.sender, runtime.clock)
    await teller.tell(closed, record, error, awaiting(recorded_entries(record, [*entries])))
    await let_expire(closed, ended, runtime.registry, runtime.home.store)


async def _closed(runtime: Runtime, closed: Item, run: int) -> Sequence[Entry]:
    """Close the journal of a terminated execution to its owners before; answers what is in it."""
    journal = Journal(runtime.home.store, closed.partition, run, TERMINATOR, closed.epoch)
    try:
        await journal.load()
        await journal.fence()
    except Fenced:  # who lets its children go was faster, and has closed it
        return (await load(runtime.home.store, closed.partition)).entries
    return journal.entries


def _stands(update: Update, there: Item | None) -> bool:
    return there is not None and there.status == update.status and there.body == update.body
