"""Deaths are counted: an entity that kills its process each time is parked, and the others go on (G1)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from holdfast.kernel import ownership
from holdfast.kernel.backlog_count import PARKED_DUE_AT
from holdfast.kernel.crash_queue import pause_seconds
from holdfast.replay.program import Deadly

if TYPE_CHECKING:
    from holdfast.kernel.entity import Unloaded
    from holdfast.kernel.host import Host
    from holdfast.replay.entity import JournaledEntity
    from holdfast.replay.journal import Journal
    from holdfast.replay.program import Program

SUSPECT: Final = 2
"""From this number of deaths in a row on, they are taken for no accident."""

MOST_TOLD: Final = 10
"""How many operations a reason names."""


async def fence(unloaded: Unloaded, journal: Journal, host: Host) -> None:
    """Fence the last owner after a takeover, once it is our turn to go on, and count its death.

    A process that dies before that is not counted: it had not begun. We ourselves may be the last owner, by a claim
    whose answer was lost; that is no death. Raises ``Deadly`` if even the body's replay has killed a process.
    """
    if unloaded.taken_over:
        deaths, most = journal.deaths + unloaded.died, host.limits.most_deaths
        if deaths >= SUSPECT:
            await host.crash_queue.enter(journal.partition, deaths, pause_seconds(deaths) if deaths < most else 0)
        await journal.fence(host.clock.now_ms() if unloaded.died and not host.draining else None)
    if journal.deaths > host.limits.most_deaths:
        raise Deadly(_reason(journal.deaths, ()), journal)


def check(journal: Journal, program: Program, host: Host) -> None:
    """Raise ``Deadly`` if one death more would be too many. The program has begun, and started nothing."""
    if journal.deaths >= host.limits.most_deaths:
        raise Deadly(_reason(journal.deaths, program.under_way), journal)


def _reason(deaths: int, under_way: Sequence[str]) -> str:
    told = ", ".join(under_way[:MOST_TOLD]) + (" and others" if len(under_way) > MOST_TOLD else "")
    what = f"while it had {told} under way" if told else "in its body"
    return (
        f"its process died {deaths} times in a row, {what}; resume it with handle.resume() or `holdfast resume` once "
        "the cause is mended"
    )


def leave_line(journal: Journal, host: Host) -> None:
    """Let the next suspect go on, if this one has made progress."""
    if not journal.deaths:
        host.crash_queue.leave(journal.partition)


async def park(entity: JournaledEntity, deadly: Deadly, host: Host) -> None:
    """Release it until it is resumed: sweeps count it, and no worker claims it. One that was parked before, and only
    woken, stays as it was.
    """
    journal = deadly.journal
    update = ownership.release(entity, host, status=entity.programs.blocked, due_at=PARKED_DUE_AT)
    if journal is None or entity.unloaded is None:
        await host.home.store.write(update)
    else:
        reason = str(deadly)
        update = replace(update, body=entity.programs.parked_body(entity.unloaded.head, reason))
        await journal.park(host.clock.now_ms(), update)
        host.telemetry.emit("execution_parked", partition=entity.partition, reason=reason)
    host.forget(entity)
