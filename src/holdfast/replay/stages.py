"""The stages of a turn of an entity with a journal: it is loaded by replay, and left with what was noted (G2)."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from msgspec import UNSET, Struct
from msgspec.structs import replace

from holdfast.clock import elapsed_seconds
from holdfast.coordination.inbox import INBOX_PREFIX, NEVER_WOKEN, USED
from holdfast.coordination.lease import Closed
from holdfast.kernel.host import settled
from holdfast.kernel.outcomes import AGAIN, LEAVING, Blocked, Ended, Idle, Rest
from holdfast.kernel.ownership import ensure_ours
from holdfast.replay import deaths, handover
from holdfast.replay.advance import advance, commit, flush, report_stall, start
from holdfast.replay.journal import FIRST_EPOCH, Journal
from holdfast.replay.program import Deadly

if TYPE_CHECKING:
    from collections.abc import Sequence

    from holdfast.coordination.lease import Held
    from holdfast.items import Item, Write
    from holdfast.kernel.host import Host
    from holdfast.kernel.outcomes import Conclusion, Left, Next
    from holdfast.replay.entity import JournaledEntity
    from holdfast.replay.program import Program, Programs

LONGEST_TAIL_ENTRIES: Final = 50
"""So many last entries ride in the head when an entity ends; more of them get a segment of their own."""


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

    async def may_claim(self, entity: JournaledEntity, host: Host, /) -> bool:
        """See ``Stages``: false if another version of the code was called for it."""
        return not await handover.handed_over(entity, host)

    async def refused(self, _entity: JournaledEntity, claim: Held | Closed, host: Host, /) -> Item | None:
        """See ``Stages``."""
        if isinstance(claim, Closed) and claim.item is not None:
            await self.programs.attend(claim.item, host)
        return None

    async def resume(self, _entity: JournaledEntity, _host: Host, /) -> None:
        """See ``Stages``."""

    async def load(self, entity: JournaledEntity, host: Host, /) -> None:
        """See ``Stages``: read the journal, once, and replay it. After a takeover it is fenced first: the last owner
        may be awake (G3).
        """
        program = await self._open(entity, host)
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
            report_stall(entity, began, host)  # a long replay is no fault of the body
        journal.entries = []
        entity.program = program
        deaths.check(journal, program, host)
        entity.head = None
        if program.mismatch is not None:
            raise Blocked(program.mismatch)

    async def _open(self, entity: JournaledEntity, host: Host) -> Program:
        assert entity.head is not None
        try:
            return self.programs.open(entity.head, host)
        except Blocked as blocked:
            if entity.taken_over:
                await handover.fence(entity, blocked.run, host)
            raise

    async def receive(self, entity: JournaledEntity, head: Item | None, host: Host, /) -> None:
        """See ``Stages``."""
        if head is not None:
            entity.paused = head.status not in self.claimable
        if entity.flushing is not None:  # it may take messages out of the inbox, or fail
            await asyncio.wait((entity.flushing,))
            ensure_ours(entity)
        if entity.revision != NEVER_WOKEN:
            await read_inbox(entity, host)

    async def run(self, entity: JournaledEntity, host: Host, /) -> Next:
        """See ``Stages``."""
        program = entity.program
        assert program is not None
        if host.crash_queue.first == entity.partition:
            deaths.leave_line(entity, host)
        advance(entity, program, host)
        if entity.pending and not (entity.paused or host.draining):
            await commit(entity, host)
            if await start(entity, program, host):
                return AGAIN
        elif program.concluded() and not (entity.busy or entity.paused or entity.interrupted):
            return await conclude(entity, program, host)
        flush(entity)
        if (entity.paused or host.draining) and not entity.busy:
            return LEAVING
        return Idle(entity.next_due(), busy=entity.busy)

    async def rest(self, entity: JournaledEntity, host: Host, /) -> Rest:
        """See ``Stages``: what was noted rides in the head."""
        program, journal = entity.program, entity.journal
        assert program is not None
        assert journal is not None
        if not (entity.paused or host.draining) and (reason := program.stuck()) is not None:
            raise Blocked(reason)  # not before: a thread that answers meanwhile is told of by the body itself
        if journal.has_many_notes:
            journal.record_notes()
            await journal.commit()
        program.keep_notes(journal.notes(), journal.count)
        if entity.paused:  # `attend` finds out when it is to be looked at
            return Rest(UNSET, UNSET, body=program.unsaved)
        due_at = host.clock.now_ms() if entity.interrupted else entity.next_due()
        return Rest(self.programs.suspended, due_at, body=program.unsaved)

    def left(self, entity: JournaledEntity, left: Left, host: Host, /) -> None:
        """See ``Stages``."""
        if isinstance(left, Rest) and entity.program is not None:
            entity.program.saved()
        settled(entity, left, host)

    async def fenced(self, _entity: JournaledEntity, /) -> None:
        """See ``Stages``. A flush is given up: nothing depends on it, and it might try for ever."""

    async def failed(self, entity: JournaledEntity, error: Exception, host: Host, /) -> None:
        """See ``Stages``."""
        match error:
            case Deadly():
                await deaths.park(entity, error, host)
            case Blocked():
                await handover.leave_to_other_code(entity, error, host)
            case _:
                host.failed(entity, error)


async def read_inbox(entity: JournaledEntity, host: Host) -> None:
    """Take in every message that is new."""
    program = entity.program
    assert program is not None
    after: str | None = None
    while True:
        page = await host.home.store.query(entity.partition, prefix=INBOX_PREFIX, after=after)
        for message in page.items:
            _take_in(message, entity, program)
        if (after := page.cursor) is None:
            return


def _take_in(message: Item, entity: JournaledEntity, program: Program) -> None:
    if message.sort in entity.receipts or message.status == USED:
        return
    entity.receipts[message.sort] = program.acknowledge(message)
    if (arrival := program.read(message)) is not None:
        entity.arrivals.append(arrival)


async def conclude(entity: JournaledEntity, program: Program, host: Host) -> Ended:
    """The end: outcome, last entries and what others must learn of it, for one write with the release. Nothing is taken
    out of memory for it, so that the turn can go on if that write is refused.
    """
    journal = entity.journal
    assert journal is not None
    others = entity.others()
    if host.home.bounds is not None and not host.home.bounds.fit(others):
        await journal.commit(*entity.take_others())
        others = ()
    elif len(journal.buffer) > LONGEST_TAIL_ENTRIES:
        await journal.commit()
    return Ended(binding(program.conclusion(journal.buffer, host.clock.now_ms()), others, host), others)


def binding(conclusion: Conclusion, others: Sequence[Write], host: Host) -> Conclusion:
    """What expires goes only if the entities that wait for it are told in the same write; else it stays."""
    if conclusion.expires_at is None or host.home.bounds is None:
        return conclusion
    writes = [*others, *(write for _, message in conclusion.posts for write in message)]
    return conclusion if host.home.bounds.fit(writes) else replace(conclusion, expires_at=None)
