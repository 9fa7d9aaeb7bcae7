"""The stages of a turn of an entity with a journal: it is loaded by replay, and left with what was noted (G2)."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from msgspec import UNSET, Struct

from holdfast.clock import elapsed_seconds
from holdfast.coordination.arrived import arrived
from holdfast.coordination.inbox import INBOX_PREFIX, USED
from holdfast.coordination.lease import Closed
from holdfast.errors import StoreUnusable
from holdfast.kernel.host import settled
from holdfast.kernel.outcomes import AGAIN, LEAVING, Blocked, Ended, Idle, Rest
from holdfast.kernel.ownership import ensure_sound
from holdfast.replay import crash_limit, handover, settling
from holdfast.replay.advance import advance, commit, flush, report_stall, start
from holdfast.replay.journal import FIRST_EPOCH, Journal
from holdfast.replay.program import Deadly
from holdfast.replay.work import Work

if TYPE_CHECKING:
    from holdfast.coordination.lease import Held
    from holdfast.items import Item
    from holdfast.kernel.entity import Unloaded
    from holdfast.kernel.host import Host
    from holdfast.kernel.outcomes import Left, Next
    from holdfast.replay.entity import JournaledEntity
    from holdfast.replay.program import Programs


class Replaying(Struct, frozen=True, gc=False):
    """The stages of the entities of one programming model."""

    programs: Programs

    @property
    def claimable(self) -> tuple[str, ...]:
        """See ``Stages``."""
        return self.programs.claimable

    @property
    def running(self) -> str:
        """See ``Stages``."""
        return self.programs.running

    def ahead(self, entity: JournaledEntity, host: Host, /) -> Ended | None:
        """See ``Stages``."""
        return settling.end_ahead(entity, host)

    async def may_claim(self, entity: JournaledEntity, host: Host, /) -> bool:
        """See ``Stages``: false if another version of the code was called for it."""
        return not await handover.handed_over(entity, host)

    async def refused(self, _entity: JournaledEntity, claim: Held | Closed, host: Host, /) -> Item | None:
        """See ``Stages``."""
        if isinstance(claim, Closed) and claim.item is not None:
            return await self.programs.attend(claim.item, host)
        return None

    async def resume(self, _entity: JournaledEntity, _host: Host, /) -> None:
        """See ``Stages``."""

    async def load(self, entity: JournaledEntity, unloaded: Unloaded, host: Host, /) -> None:
        """See ``Stages``: read the journal, once, and replay it. After a takeover it is fenced first: the last owner
        may be awake (G3).
        """
        try:
            program = await self.programs.taken_up(unloaded.head, host)
        except Blocked as blocked:
            if unloaded.taken_over:
                await handover.fence(entity, blocked.run, host, died=unloaded.died)
            raise
        home, epoch = host.home, entity.epoch
        journal = Journal(home.store, entity.partition, program.run, home.owner, epoch, home.bounds)
        if epoch != FIRST_EPOCH:
            await journal.load()
        entity.unread = entity.unread or not unloaded.created
        if unloaded.taken_over or journal.deaths:
            await crash_limit.fence(unloaded, journal, host)
        began = elapsed_seconds()
        program.begin(journal.entries, host.clock.now_ms(), deaths=journal.deaths)
        if not journal.entries and elapsed_seconds() - began > host.limits.stalled_seconds:
            report_stall(entity.partition, began, host)  # a long replay is no fault of the body
        journal.entries = ()
        journal.held = program.held
        journal.told = program.recorded
        entity.work = Work(program, journal)
        if journal.deaths:
            crash_limit.check(journal, program, host)
        entity.unloaded = None
        if program.mismatch is not None:
            raise Blocked(program.mismatch)

    async def receive(self, entity: JournaledEntity, head: Item | None, host: Host, /) -> None:
        """See ``Stages``."""
        if head is not None:
            entity.paused = head.status not in self.claimable
        work = entity.at_work
        if work.flushing is not None:  # it may take messages out of the inbox, or fail
            await asyncio.wait((work.flushing,))
            ensure_sound(entity)
        if entity.hold.revision != work.program.first_revision:
            try:
                await read_inbox(entity.partition, work, host)
            except Blocked:
                advance(entity.partition, work, host)  # what has ended here is kept
                raise

    async def run(self, entity: JournaledEntity, host: Host, /) -> Next:
        """See ``Stages``."""
        work = entity.work
        assert work is not None
        if host.crash_queue.first == entity.partition:
            crash_limit.leave_line(work.journal, host)
        advance(entity.partition, work, host)
        if work.pending and not (entity.paused or host.draining):
            await commit(entity, work, host)
            if await start(entity, work, host):
                return AGAIN
        elif work.program.concluded() and not (work.busy or entity.paused or entity.interrupted):
            if not settling.fits_one_write(work, host):
                await work.journal.commit(*work.take_others())
            return settling.ended(work, host)
        elif work.has_unwritten and not settling.may_ride(work, host):
            flush(entity, work, host)
        if (entity.paused or host.draining) and not work.busy:
            return LEAVING
        return Idle(work.next_due(), busy=work.busy)

    async def rest(self, entity: JournaledEntity, host: Host, /) -> Rest:
        """See ``Stages``: what was noted rides in the head, and what is waited for; and the last entries, if that saves
        a write.
        """
        work = entity.at_work
        if not (entity.paused or host.draining) and (reason := work.program.stuck()) is not None:
            raise Blocked(reason)  # not before: a thread that answers meanwhile is told of by the body itself
        await settling.write_what_does_not_ride(entity, host)
        body, others = work.program.at_rest(work.journal.unwritten(), work.journal.count), work.others()
        if entity.paused:  # `attend` finds out when it is to be looked at
            return Rest(UNSET, UNSET, body=body, others=others)
        due_at = host.clock.now_ms() if entity.interrupted else work.next_due()
        return Rest(self.programs.suspended, due_at, body=body, others=others)

    def left(self, entity: JournaledEntity, left: Left, host: Host, /) -> None:
        """See ``Stages``."""
        if isinstance(left, Rest):
            entity.at_work.rested()
        settled(entity, left, host)

    async def fenced(self, _entity: JournaledEntity, /) -> None:
        """See ``Stages``. A flush is given up: nothing depends on it, and it might try for ever."""

    async def failed(self, entity: JournaledEntity, error: Exception, host: Host, /) -> None:
        """See ``Stages``."""
        match error:
            case Deadly():
                await crash_limit.park(entity, error, host)
            case Blocked():
                await handover.leave_to_other_code(entity, error, host)
            case _:
                host.failed(entity, error)


async def read_inbox(partition: str, work: Work, host: Host) -> None:
    """Take in every message that is new: all of them, or none if one cannot be read. Raises ``Blocked`` for that one:
    newer code may have written it, and who waits for an answer has to learn what it waits for.
    """
    there = await arrived(host.home, partition, INBOX_PREFIX)
    messages = [each for each in there if each.sort not in work.receipts and each.status != USED]
    try:
        arrivals = [work.program.read(message) for message in messages]
    except StoreUnusable as error:
        raise Blocked(f"{error}, or terminate it") from error
    work.receipts = {**work.receipts, **{message.sort: work.program.acknowledge(message) for message in messages}}
    work.arrive(*(arrival for arrival in arrivals if arrival is not None))
