"""Commands that look at a whole home: ``overview schedules leases workers``."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import Final

import click

from holdfast.cli.declaring import after_option, limit_option
from holdfast.cli.output import bold, coloured, plain, shown_moment, table
from holdfast.cli.scanning import NONE_SO_FAR, scan_option
from holdfast.cli.session import Session, examples, on_home
from holdfast.cli.values import now
from holdfast.clock import between, duration
from holdfast.commands.overview import Counted, HomeOverview, Overview
from holdfast.commands.system import ListLeases, ListSchedules, ListWorkers
from holdfast.messaging.schedules import ScheduleStatus
from holdfast.patterns import lease_list
from holdfast.patterns.lease_list import LeaseStatus
from holdfast.patterns.workers import WorkerStatus

SCHEDULES: Final = ("APP", "NAME", "SCHEDULE", "LAST (UTC)", "NEXT (UTC)", "", "MISSED", "ERROR")
LEASES: Final = ("KIND", "NAME", "PERMIT", "STATUS", "SINCE (UTC)", "UNTIL (UTC)", "", "FENCE", "OWNER")
WORKERS: Final = ("OWNER", "ALIVE", "EXECUTIONS", "ACTORS", "OTHERS", "LEASES", "UNTIL (UTC)", "FOR EXAMPLE")
UNKNOWN: Final = "unknown"
NOT_WHOLE: Final = "not all that is owned was read, so the counts are at least so high; on AWS leases count with --scan"


@click.command(
    "overview", epilog=examples("holdfast overview -a shop:app", "holdfast overview --home sqlite:///shop.db --json")
)
@on_home
def overview(session: Session) -> None:
    """Show how a home stands: executions by status, what is late or blocked, what waits, the last failures.

    It takes a handful of reads, however large the home is. On AWS nothing is counted that would need the whole table.
    """
    found = session.perform(Overview())
    session.answer(found, "\n".join(_overview_lines(found)))


def _overview_lines(found: HomeOverview) -> Iterator[str]:
    yield bold(f"{found.home}, {shown_moment(found.at)} UTC")
    counts = None if found.executions is None else found.executions.items()
    if counts is None:
        yield "  executions       not counted here: it would read the whole table; see holdfast ls"
    else:
        yield f"  executions       {', '.join(f'{count:,} {coloured(each, each)}' for each, count in counts) or 'none'}"
    oldest = found.oldest_overdue
    late = "" if oldest is None else f", first {plain(oldest.what)} since {shown_moment(oldest.since)}: is a worker up?"
    yield f"  overdue          {_count(found.overdue)}{late}"
    yield f"  blocked          {_known(found.blocked)}"
    yield f"  parked           {_count(found.parked)} executions, {_count(found.parked_messages)} messages"
    yield f"  halted actors    {_known(found.halted)}"
    yield f"  events waiting   {_count(found.outbox)} for consumers, {_count(found.bus)} for the bus"
    if found.refused.count:
        yield f"  refused events   {_count(found.refused)}: see holdfast outbox ls"
    yield f"  processes        {_known(found.processes)}"
    if found.failed_lately is not None:
        yield f"  failed in a day  {_count(found.failed_lately)}"
    for each in found.failures:
        when = shown_moment(each.ended_at or each.created_at)
        why = plain(each.error or each.status)
        yield f"    {when}  {each.workflow} {plain(each.id)}  {coloured(each.status, each.status)}  {why}"


def _count(found: Counted) -> str:
    return f"{found.count:,}{' or more' if found.more else ''}"


def _known(count: int | None) -> str:
    return UNKNOWN if count is None else f"{count:,}"


@click.command(
    "schedules", epilog=examples("holdfast schedules -a shop:app", "holdfast schedules --home sqlite:///shop.db shop")
)
@click.argument("name", metavar="[APP]", required=False)
@limit_option
@after_option
@scan_option
@on_home
def schedules(session: Session, *, name: str | None, limit: int, after: str | None, scan: bool) -> None:
    """List the schedules that workers have begun: those of all apps of the home, or of one.

    MISSED counts the ticks that no worker was there for. LAST is the tick before the next one.
    """
    page = session.perform(ListSchedules(name, after, limit, scan))
    lines = _lines(SCHEDULES, [_schedule(each) for each in page.items], page.after, "no schedules")
    session.answer({"schedules": page.items, "cursor": page.after}, lines)


def _schedule(each: ScheduleStatus) -> tuple[str, ...]:
    last = "" if each.last_at is None else shown_moment(each.last_at)
    when = f"{each.expression} {each.tz}"
    missed = f"{each.missed}" if each.missed else ""
    return each.app, each.name, when, last, *_moment(each.next_at), missed, plain(each.error or "")


@click.command(
    "leases",
    epilog=examples("holdfast leases -a shop:app", "holdfast leases --home sqlite:///shop.db --status LAPSED --json"),
)
@click.option("--kind", type=click.Choice(lease_list.KINDS), help="Only of this kind.")
@click.option("--status", type=click.Choice(lease_list.STATUSES, case_sensitive=False), help="Only in this status.")
@limit_option
@after_option
@scan_option
@on_home
def leases(
    session: Session, *, kind: str | None, status: str | None, limit: int, after: str | None, scan: bool
) -> None:
    """List leases, permits of semaphores and roles of leaders: who holds each, and until when.

    LAPSED is a lease whose owner has died or has not renewed it: the next caller takes it over.
    """
    page = session.perform(ListLeases(kind, status, after, limit, scan))
    lines = _lines(LEASES, [_lease(each) for each in page.items], page.after, "no leases")
    session.answer({"leases": page.items, "cursor": page.after}, lines)


def _lease(each: LeaseStatus) -> tuple[str, ...]:
    permit = str(each.permit) if each.kind == "semaphore" else ""
    fence, owner = str(each.fence), plain(each.owner or "")
    since = "" if each.since is None else shown_moment(each.since)
    return each.kind, plain(each.name), permit, each.status, since, *_moment(each.until), fence, owner


@click.command(
    "workers", epilog=examples("holdfast workers -a shop:app", "holdfast workers --home sqlite:///shop.db --json")
)
@limit_option
@after_option
@scan_option
@on_home
def workers(session: Session, *, limit: int, after: str | None, scan: bool) -> None:
    """List the processes that have the home open or own something in it. This command is one of them.

    On AWS only those are known that own something, and not whether they live. Leases count there with --scan.
    """
    page = session.perform(ListWorkers(after, limit, scan))
    lines = _lines(WORKERS, [_worker(each) for each in page.items], page.after, "no processes")
    more = "" if page.whole else f"\n{NOT_WHOLE}"
    session.answer({"workers": page.items, "whole": page.whole, "cursor": page.after}, lines + more)


def _worker(each: WorkerStatus) -> tuple[str, ...]:
    alive = "this one" if each.here else UNKNOWN if each.alive is None else "yes" if each.alive else "no"
    alive = "stopped" if each.stopped else alive
    counts = (each.executions, each.actors, each.others, each.leases)
    until = "" if each.until is None else shown_moment(each.until)
    return plain(each.owner), alive, *map(str, counts), until, plain(", ".join(each.examples))


def _moment(when: datetime | None) -> tuple[str, str]:
    """A moment, and how far it is from now."""
    if when is None:
        return "", ""
    ahead = between(now(), when)
    return shown_moment(when), f"in {duration(ahead)}" if ahead > 0 else f"for {duration(-ahead)}"


def _lines(headings: tuple[str, ...], rows: list[tuple[str, ...]], cursor: str | None, none: str) -> str:
    lines = table(headings, rows) if rows else [none if cursor is None else NONE_SO_FAR]
    return "\n".join(lines if cursor is None else [*lines, f"there are more: add --after {cursor}"])


COMMANDS: Final = (overview, schedules, leases, workers)
