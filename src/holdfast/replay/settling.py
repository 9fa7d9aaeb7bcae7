"""How the last entries ride in the head, with the write that ends an entity, or that releases it, if that saves one.

Until the next segment is written, which brings them along, the head is then the end of the journal. So nothing may be
under way whose own record could come first, and what rides is durable before anything rests on it (G2, G7).

Where each write is paid for, an entity that ends with what was waited for is not claimed before: the end itself is
written if the head is as this process has left it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from holdfast.items import Item
from holdfast.kernel.outcomes import Blocked, Ended
from holdfast.replay.advance import advance

if TYPE_CHECKING:
    from collections.abc import Sequence

    from holdfast.items import Write
    from holdfast.kernel.host import Host
    from holdfast.kernel.outcomes import Conclusion
    from holdfast.replay.entity import JournaledEntity
    from holdfast.replay.entries import Entry
    from holdfast.replay.work import Work

LONGEST_TAIL_ENTRIES: Final = 50
"""How many last entries ride in the head when an entity ends or rests; more of them get a segment of their own."""


# ── The end ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def ended(work: Work, host: Host) -> Ended:
    """The end: outcome, last entries and what others must learn of it, for one write with the release. Nothing is taken
    out of memory for it, so that the turn can go on if that write is refused.
    """
    others = work.others()
    conclusion = work.program.conclusion(work.journal.tail(), host.clock.now_ms())
    return Ended(conclusion if conclusion.expires_at is None else _binding(conclusion, others, host), others)


def fits_one_write(work: Work, host: Host) -> bool:
    """Whether the last entries ride in the head, with all that is to be written with them."""
    fits = host.home.bounds is None or host.home.bounds.fit(work.others())
    return fits and len(work.journal.unwritten()) <= LONGEST_TAIL_ENTRIES


def _binding(conclusion: Conclusion, others: Sequence[Write], host: Host) -> Conclusion:
    """What expires goes only if the entities that wait for it are told in the same write; else it stays."""
    if host.home.bounds is None:
        return conclusion
    writes = [*others, *(write for _, message in conclusion.posts for write in message())]
    return conclusion if host.home.bounds.fit(writes) else replace(conclusion, expires_at=None)


def end_ahead(entity: JournaledEntity, host: Host) -> Ended | None:
    """How an entity ends that this process has released, if it ends with what has fallen due; see ``Stages.ahead``.

    Only the body runs for it: where it asks for more than its end, the entity is claimed before anything begins, and
    what the body was told here counts if its head is still as it was left (``JournaledEntity.own``).
    """
    work, home = entity.work, host.home
    if work is None or entity.has_news or entity.missed or entity.paused or host.draining:
        return None
    if not (home.writes_are_paid and work.is_due(host.clock.now_ms())):
        return None
    entity.ran_ahead = True
    try:
        advance(entity.partition, work, host)
    except Blocked:  # the owner finds out again, and leaves it to other code
        entity.unload()
        return None
    if work.pending or not work.program.concluded() or not fits_one_write(work, host):
        return None
    return ended(work, host)


# ── A rest ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def may_ride(work: Work, host: Host) -> bool:
    """Whether what is not written yet can wait for the release, which follows at once: elsewhere a process that dies
    while it lingers would have to do the last step again.

    A journal that counts deaths writes each progress by itself: it is what ends the count. So does one in which a retry
    has kept something aside: other processes would count its entries otherwise, and not see what the head holds.
    """
    lingers = host.limits.linger_seconds > 0 or host.limits.near_seconds > 0
    by_itself = lingers or work.effects or work.pending or work.journal.deaths or work.journal.keeps_aside
    return host.home.writes_are_paid and not by_itself


async def write_what_does_not_ride(entity: JournaledEntity, host: Host) -> None:
    """Make what is unwritten a segment of its own, unless it may ride in the head, and costs less there."""
    work = entity.at_work
    if work.journal.has_many_notes:
        work.journal.record_notes()
    elif not work.has_unwritten or (
        may_ride(work, host) and fits_one_write(work, host) and _adds_nothing(entity, work, host)
    ):
        return
    await work.journal.commit(*work.take_others())


def _adds_nothing(entity: JournaledEntity, work: Work, host: Host) -> bool:
    """Whether the head takes no more units with what rides in it than without, also when it is claimed again."""
    home, journal = host.home, work.journal
    if home.units_of is None:
        return True

    now = host.clock.now_ms()

    def head(unwritten: tuple[Entry, ...]) -> Item:
        body = work.program.at_rest(unwritten, journal.count, tried=True) or b""
        return Item(entity.partition, owner=home.owner, lease_until=now, due_at=now, epoch=entity.epoch, body=body)

    laden = head(journal.unwritten())
    return len(laden.body) <= home.inline_bytes and home.units_of(laden) <= home.units_of(head(journal.notes()))
