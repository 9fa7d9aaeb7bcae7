"""Executions that wait in a queue, as a worker attends to them: one has its slot now, is to end, or has lost its place.

An execution that has never begun ends without a slot, for nothing of its body has to run. One that was retried waits
for its slot: to clean up is work, too.
"""

from __future__ import annotations

from asyncio import CancelledError
from collections.abc import Awaitable, Callable
from functools import partial
from typing import TYPE_CHECKING, Final

from msgspec import Raw, Struct
from msgspec.structs import replace

from holdfast import ids
from holdfast.coordination.inbox import INBOX_PREFIX, USED, Sender
from holdfast.errors import Refused, StoreUnavailable
from holdfast.failure import describe
from holdfast.flow.beginning import begin_with_slot
from holdfast.flow.declarations import queue_at
from holdfast.flow.ends import Ends
from holdfast.flow.gates import Gates, begin_queues
from holdfast.flow.record import QUEUED, Queueing, make_due, name_of, place_delete, place_put, rouse
from holdfast.items import ABSENT, Delete, Item, Put, Update
from holdfast.kernel.wake import wake, wake_at
from holdfast.paging import items
from holdfast.replay.entries import Cancelled
from holdfast.replay.journal import SEGMENT_PREFIX
from holdfast.workflows.ended_outside import Teller, let_expire
from holdfast.workflows.messages import send
from holdfast.workflows.outcome_error import outcome_error
from holdfast.workflows.queueing import as_it_waits, tell_gate, tell_left
from holdfast.workflows.record import (
    CANCELLED,
    CLOSED,
    DELETED,
    NO_LONGER_AWAITED,
    TIMED_OUT,
    CancelRequest,
    ExecutionRecord,
    decode_message,
    decode_record,
    encode_record,
    id_of,
    workflow_of,
)
from holdfast.workflows.runs import first_revision, first_run

if TYPE_CHECKING:
    from holdfast.kernel.host import Host
    from holdfast.kernel.runtime import Runtime
    from holdfast.registrations import Registrations


LATEST_MS: Final = 30 * 86_400_000
"""So long it is noted that an execution was given up whose start has written its place only."""


class Waiters(Struct, frozen=True):
    """What it takes to attend to executions that wait."""

    registry: Registrations
    sender: Sender
    host: Host

    async def attend(self, head: Item) -> Item | None:
        """Do what is due about one. Answers its head if it has begun, with our lease in it.

        Each write is refused if another process was faster, or if it was changed meanwhile.
        """
        record, now = decode_record(head.body), self.host.clock.now_ms()
        assert record.queued is not None, "only what has a queue is queued"
        begun = await begin_with_slot(head.partition, record.queued.gate, self.host)
        if begun is not None or head.due_at is None or head.due_at > now:
            return begun
        try:
            await self._look(head, record, now)
        except Refused:
            self.host.check_at(head.partition, now + 1)
        return None

    async def purge(self, head: Item, until: int, gate: str) -> bool:
        """End one by an order to its queue, if it waits there since then or longer; false if it waits on, to clean up.
        Raises ``Refused`` if it has changed meanwhile.
        """
        record, now = decode_record(head.body), self.host.clock.now_ms()
        waits, reason = record.queued, f"purged from queue {name_of(gate)}"
        if waits is None or waits.gate != gate or waits.since > until:
            return True  # it waits again, in another place
        request = ids.derive("purge", gate, head.partition, str(until))
        if await self._is_untouched(head, record):
            await self._end_it(head, record, CANCELLED, Cancelled(now, reason, id=request))
            return True
        await send(head.partition, CancelRequest(reason, request), self.host.home, self.host, self.sender, now)
        return False

    async def _look(self, head: Item, record: ExecutionRecord, now: int) -> None:
        store, waits = self.host.home.store, record.queued
        assert waits is not None
        untouched = await self._is_untouched(head, record)
        if untouched and (end := await self._end(head, record, now)) is not None:
            await self._end_it(head, record, *end, *await self._leaving(head, waits))
            tell_left(head.partition, waits, self.host.home, self.host)
            return
        deadline_at = record.deadline_at if untouched else None
        as_seen = as_it_waits(head)
        if waits.since > now:  # a message has come before its time
            await store.write(Update(partition=head.partition, when=as_seen, due_at=waits.since))
            wake_at(head.partition, waits.since, self.host.home, self.host)
            return
        put, seen = place_put(head.partition, waits), Update(partition=head.partition, when=as_seen, due_at=deadline_at)
        gate = make_due(waits.gate, now)  # before nothing is due about it any more: a wake-up may be lost
        try:
            if await store.get(put.item.partition, put.item.sort) is not None:
                await rouse(waits.gate, self.host.home, queue_at(waits.gate, self.registry.queues), now)
                await store.write(seen)
            elif self.host.home.writes_are_paid:
                await store.write(put)
                await store.write(gate)
                await store.write(seen)
            else:
                await store.write(seen, put, gate)
        finally:
            tell_gate(head.partition, waits, self.host.home, self.host)  # also of a place that is of no use

    async def _leaving(self, head: Item, waits: Queueing) -> tuple[Delete, ...]:
        """What to write with the end of one that is due: no place of it is left. Where writes are paid, the place goes
        before: it is due until it has ended.
        """
        left = place_delete(head.partition, waits)
        if not self.host.home.writes_are_paid:
            return (left,)
        await self.host.home.store.write(left)
        return ()

    async def _is_untouched(self, head: Item, record: ExecutionRecord) -> bool:
        """Whether its body has never begun."""
        if record.timed_from or record.tail or record.notes:
            return False
        page = await self.host.home.store.query(head.partition, prefix=SEGMENT_PREFIX, limit=1)
        return not page.items

    async def _end(self, head: Item, record: ExecutionRecord, now: int) -> tuple[str, Cancelled] | None:
        """How it ends, if it is to end."""
        async for item in items(self.host.home.store, head.partition, prefix=INBOX_PREFIX):
            if item.status != USED and isinstance(message := decode_message(item.body), CancelRequest):
                return CANCELLED, Cancelled(now, message.reason, id=message.id)
        if record.deadline_at is not None and record.deadline_at <= now:
            return TIMED_OUT, Cancelled(now, "it ran past its timeout", timed_out=True)
        return None

    async def _end_it(
        self, head: Item, record: ExecutionRecord, status: str, cancelled: Cancelled, *others: Delete
    ) -> None:
        host, reason = self.host, cancelled.reason or "nobody said why"
        ended = replace(
            record, ended_at=cancelled.at, error=describe(CancelledError(reason)), tail=(cancelled,), waits=None
        )
        update = Update(
            partition=head.partition,
            when=as_it_waits(head),
            status=status,
            due_at=None,
            body=encode_record(ended),
            add_revision=1,
        )
        await host.home.store.write(
            update,
            *others,
            *[
                Delete(head.partition, item.sort)
                async for item in items(host.home.store, head.partition, prefix=INBOX_PREFIX)
                if item.status != USED and isinstance(decode_message(item.body), CancelRequest)
            ],
        )
        wake(head.partition, host.home, host)
        if (tracer := host.telemetry.tracer) is not None:
            host.telemetry.trace(tracer.recorded, head.partition, ended, ended.tail)
            host.telemetry.trace(tracer.ended, head.partition, ended, status)
        error = describe(outcome_error(status, ended, self.registry.errors))
        closed = replace(head, status=status)
        await Teller(host.home, host, self.sender, host.clock).tell(closed, record, error, ())
        await let_expire(closed, ended, self.registry, host.home.store)


async def begin_gates(runtime: Runtime) -> Gates:
    """The model of the gates of an app's queues, for a worker."""
    return await begin_queues(runtime, CLOSED, Ends(_purging(runtime), partial(_give_up, runtime)))


def _purging(runtime: Runtime) -> Callable[[Item, int, str, Host], Awaitable[bool]]:
    """What ends an execution by an order to its queue, as ``Waiters.purge`` says. True if it does not wait any more."""

    async def end(head: Item, until: int, gate: str, host: Host) -> bool:
        waiters = Waiters(runtime.registry, runtime.sender, host)
        there: Item | None = head
        while there is not None and there.status == QUEUED:
            try:
                return await waiters.purge(there, until, gate)
            except Refused:
                there = await host.home.store.get(head.partition)
        return True

    return end


async def _give_up(runtime: Runtime, partition: str, host: Host) -> bool:
    """Have an execution never come whose start has written its place, and no head: one that was deleted is in its place
    then. The start finds it if it goes on after all, and begins again.
    """
    now = host.clock.now_ms()
    record = ExecutionRecord(
        workflow=workflow_of(partition),
        id=id_of(partition),
        version="",
        input=Raw(b"null"),
        fingerprint="",
        created_at=now,
        secret="",
        run=first_run(runtime.home) - 1,  # what is started in its place has the first run of a new generation
        run_at=now,
        ended_at=now,
        error=describe(CancelledError(NO_LONGER_AWAITED)),
    )
    body = encode_record(record)
    never = Item(partition, revision=first_revision(record.run), status=DELETED, expires_at=now + LATEST_MS, body=body)
    try:
        await host.home.store.write(Put(never, ABSENT))
    except (Refused, StoreUnavailable):
        return False
    return True
