"""``holdfast actor ls``, ``holdfast actor show`` and ``holdfast actor request``: what the home holds of actors."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any, Final

import click
from msgspec import Struct

from holdfast.actors.admin.handle import ActorStatus, Departing, Message, TimerStatus
from holdfast.app import App
from holdfast.cli.declaring import listing, on_actor
from holdfast.cli.known import status_of
from holdfast.cli.output import as_json, bold, coloured, plain, shown_moment, table
from holdfast.cli.scanning import scan_option
from holdfast.cli.session import Session, on_home, performed
from holdfast.cli.values import now
from holdfast.clock import between, duration
from holdfast.commands import IN_HOME, perform
from holdfast.commands.actor import STATUSES, ListActors, RequestStatus, ShowActor
from holdfast.coordination.schedule import CronSchedule, Every, Schedule
from holdfast.failure import ErrorRecord, in_one_line, traceback_text
from holdfast.keys import LARGEST_PAGE
from holdfast.secret import redacted
from holdfast.texts import masked

HEADINGS: Final = ("ACTOR", "KEY", "STATUS", "VERSION", "PARKED", "NEXT TIMER (UTC)")
TIMER_HEADINGS: Final = ("TIMER", "DUE (UTC)", "", "AGAIN")
MESSAGE_HEADINGS: Final = ("PLACE", "METHOD", "SENT (UTC)", "ATTEMPTS", "ARGUMENTS, LAST ERROR")
SENT_HEADINGS: Final = ("PLACE", "TO", "METHOD OR EVENT", "ID")
SHOWN_MESSAGES: Final = 20


class Row(Struct, frozen=True, kw_only=True):
    """An actor in a list. Its state is not in it."""

    actor: str
    key: str
    status: str
    version: int
    parked: int
    timers: tuple[TimerStatus, ...]
    owner: str | None


class Listed(Struct, frozen=True, kw_only=True):
    """Some actors, and the cursor of the next page."""

    actors: list[Row]
    cursor: str | None


class Shown(Struct, frozen=True, kw_only=True):
    """All that ``actor show`` prints about an actor."""

    actor: ActorStatus
    waiting: tuple[Message, ...]
    parked: tuple[Message, ...]
    departures: tuple[Departing, ...]
    owner_alive: bool | None


# ── Lists ───────────────────────────────────────────────────────────────────────────────────────────────────────────


@listing(
    "holdfast actor ls -a shop:app",
    "holdfast actor ls --home sqlite:///shop.db Cart --status HALTED --json",
)
@click.option("--status", type=click.Choice(STATUSES, case_sensitive=False), help="Only in this status.")
@scan_option
@on_home
def ls(session: Session, *, name: str | None, status: str | None, scan: bool, limit: int, after: str | None) -> None:
    """List actors, newest first: all of them, or those of one class.

    Deleted ones are left out unless --status asks for them. The hidden actors of consumers and schedules, whose names
    begin with "!", are left out unless NAME asks for them.
    """

    async def look(app: App) -> Listed:
        page = await perform(ListActors(name, status, after=after, limit=limit, scan=scan), app, names=IN_HOME)
        parked = await _parked_counts(app)
        rows = [_row(each, parked[each.actor, each.key]) for each in page.items]
        return Listed(actors=rows, cursor=page.after)

    listed = session.run(look)
    session.answer(listed, "\n".join(_list_lines(listed)))


async def _parked_counts(app: App) -> Counter[tuple[str, str]]:
    counts: Counter[tuple[str, str]] = Counter()
    after: str | None = None
    while True:
        page = await app.parked(after=after, limit=LARGEST_PAGE)
        counts.update((each.actor, each.key) for each in page.items)
        if (after := page.after) is None:
            return counts


def _row(status: ActorStatus, parked: int) -> Row:
    return Row(
        actor=status.actor,
        key=status.key,
        status=status.status,
        version=status.version,
        parked=parked,
        timers=status.timers,
        owner=status.owner,
    )


def _list_lines(listed: Listed) -> Iterator[str]:
    if not listed.actors:
        yield "no actors"
        return
    heading, *lines = table(HEADINGS, [_cells(row) for row in listed.actors])
    yield heading
    for line, row in zip(lines, listed.actors, strict=True):
        yield line.replace(f" {row.status} ", f" {coloured(row.status, row.status)} ", 1)
    if listed.cursor is not None:
        yield f"there are more: add --after {listed.cursor}"


def _cells(row: Row) -> tuple[str, ...]:
    first = min((timer.due_at for timer in row.timers), default=None)
    due = "" if first is None else shown_moment(first)
    return row.actor, row.key, row.status, str(row.version), str(row.parked or ""), due


# ── One actor ───────────────────────────────────────────────────────────────────────────────────────────────────────


@on_actor(
    "show", "holdfast actor show -a shop:app Cart u1", "holdfast actor show --home sqlite:///shop.db Cart u1 --json"
)
@on_home
def show(session: Session, *, name: str, key: str) -> None:
    """Show an actor: its state, its timers, the messages that wait and those that are parked.

    The state and the arguments of messages are shown; callback tokens are not.
    """

    async def look(app: App) -> Shown:
        found = await performed(ShowActor(name, key, limit=None), partial(status_of, actor=name, key=key), app)
        owner = found.status.owner
        alive = None if owner is None else app.runtime().home.doorbell.alive(owner)
        return Shown(
            actor=found.status,
            waiting=found.waiting,
            parked=found.parked,
            departures=found.departures,
            owner_alive=alive,
        )

    shown = session.run(look)
    session.answer(shown, "\n".join(_lines(shown)))


@on_actor("request", "holdfast actor request --home sqlite:///shop.db Cart u1 order-17")
@click.argument("id")
@on_home
def request(session: Session, *, name: str, key: str, id: str) -> None:
    """Show what became of a request to an actor: completed, failed, waiting, parked or unknown.

    ID is the request id of the call or of the message.
    """
    explain = partial(status_of, actor=name, key=key)
    found = session.perform(RequestStatus(name, key, id), explain=explain)
    session.answer({"actor": name, "key": key, "id": found.id, "status": found.status}, found.status)


def _lines(shown: Shown) -> Iterator[str]:
    status = shown.actor
    yield f"{bold(f'{status.actor} {plain(status.key)}')}  {coloured(status.status, status.status)}"
    yield f"  version   {status.version}"
    if status.owner is not None:
        yield f"  owner     {status.owner}{'' if shown.owner_alive else ', which is gone'}"
    if status.halted_by is not None:
        yield f"  halted    at {status.halted_by}: fix the cause, then actor resume; or actor park to skip it"
    yield ""
    yield "  state"
    yield from (f"    {plain(line)}" for line in pretty(status.state))
    if status.timers:
        yield ""
        yield from table(TIMER_HEADINGS, [_timer_cells(timer) for timer in status.timers], indent="  ")
    yield from _message_lines("waiting", shown.waiting)
    yield from _message_lines("parked after their attempts failed; see actor unpark, discard", shown.parked)
    if shown.departures:
        yield ""
        yield f"  {len(shown.departures)} sent, and to be delivered by the actor's owner"
        yield from table(SENT_HEADINGS, [_sent_cells(each) for each in shown.departures[:SHOWN_MESSAGES]], indent="  ")
    failed = [each.error for each in (*shown.waiting, *shown.parked) if each.error is not None]
    if failed:
        yield ""
        yield from traceback_lines(failed[0])


def pretty(value: Any) -> Sequence[str]:
    """JSON for people, line by line."""
    return json.dumps(redacted(value), indent=2, ensure_ascii=False).splitlines()


def _message_lines(title: str, messages: Sequence[Message]) -> Iterator[str]:
    if not messages:
        return
    yield ""
    yield f"  {len(messages)} {title}"
    yield from table(MESSAGE_HEADINGS, [_message_cells(each) for each in messages[:SHOWN_MESSAGES]], indent="  ")
    if len(messages) > SHOWN_MESSAGES:
        yield f"  and {len(messages) - SHOWN_MESSAGES} more: --json shows all"


def _message_cells(message: Message) -> tuple[str, ...]:
    told = plain(as_json(message.args))
    if message.not_before is not None:
        told = f"not before {shown_moment(message.not_before)}: {told}"
    if message.error is not None:
        told = f"{told}, {error_line(message.error)}"
    return message.place, message.method, shown_moment(message.sent_at), str(message.attempts or ""), told


def _sent_cells(sent: Departing) -> tuple[str, ...]:
    return sent.place, plain(sent.to), sent.what, plain(sent.id)


def _timer_cells(timer: TimerStatus) -> tuple[str, ...]:
    ahead = between(now(), timer.due_at)
    told = f"in {duration(ahead)}" if ahead > 0 else f"for {duration(-ahead)}"
    return timer.name, shown_moment(timer.due_at), told, again(timer.schedule)


def again(schedule: Schedule | None) -> str:
    """How a timer is set again."""
    match schedule:
        case None:
            return ""
        case Every(period_ms):
            return f"every {duration(period_ms)}"
        case CronSchedule(expression, tz):
            return f"{expression} {tz}"


def traceback_lines(error: ErrorRecord) -> Iterator[str]:
    """Where an error was raised, line by line."""
    yield from (f"    {plain(line)}" for line in traceback_text(error).splitlines())


def error_line(error: ErrorRecord) -> str:
    """An error on one line."""
    return plain(masked(in_one_line(error)))
