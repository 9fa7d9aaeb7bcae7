"""Executions that wait in a queue, as a worker attends to them: one has its slot now, is to end, or has lost its place.

An execution that has never begun ends without a slot, for nothing of its body has to run. One that was retried waits
for its slot: to clean up is work, too.
"""

from __future__ import annotations

from asyncio import CancelledError
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from holdfast import ids
from holdfast.coordination.inbox import INBOX_PREFIX, USED, Sender
from holdfast.errors import Refused
from holdfast.failure import describe
from holdfast.flow.beginning import begin_with_slot
from holdfast.flow.declarations import queue_at
from holdfast.flow.gates import Gates, begin_queues
from holdfast.flow.record import QUEUED, make_due, name_of, place_put, rouse
from holdfast.items import AllOf, Delete, EpochIs, Item, RevisionIs, StatusIn, Update
from holdfast.kernel.wake import wake, wake_at
from holdfast.paging import items
from holdfast.replay.entries import Cancelled
from holdfast.replay.journal import SEGMENT_PREFIX
from holdfast.workflows.ended_outside import Teller, let_expire
from holdfast.workflows.launch import outcome_error
from holdfast.workflows.messages import send
from holdfast.workflows.queueing import tell_gate
from holdfast.workflows.record import (
    CANCELLED,
    CLOSED,
    TIMED_OUT,
    CancelRequest,
    ExecutionRecord,
    decode_message,
    decode_record,
    encode_record,
)

if TYPE_CHECKING:
    from holdfast.flow.purging import End
    from holdfast.kernel.host import Host
    from holdfast.kernel.runtime import Runtime
    from holdfast.registrations import Registrations


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
            await self._end_it(head, record, *end)
            return
        deadline_at = record.deadline_at if untouched else None
        as_seen = AllOf((StatusIn((QUEUED,)), RevisionIs(head.revision), EpochIs(head.epoch)))
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

    async def _end_it(self, head: Item, record: ExecutionRecord, status: str, cancelled: Cancelled) -> None:
        host, reason = self.host, cancelled.reason or "nobody said why"
        ended = replace(
            record, ended_at=cancelled.at, error=describe(CancelledError(reason)), tail=(cancelled,), waits=None
        )
        update = Update(
            partition=head.partition,
            when=AllOf((StatusIn((QUEUED,)), RevisionIs(head.revision), EpochIs(head.epoch))),
            status=status,
            due_at=None,
            body=encode_record(ended),
            add_revision=1,
        )
        await host.home.store.write(
            update,
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
    return await begin_queues(runtime, CLOSED, _ending(runtime))


def _ending(runtime: Runtime) -> End:
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
