"""``holdfast queue``: how the queues of executions stand, and changing them while they work."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Final

import click

from holdfast.cli.declaring import after_option, limit_option
from holdfast.cli.numbers import given, shown_number, shown_rate
from holdfast.cli.output import bold, coloured, plain, shown_moment, table
from holdfast.cli.session import Session, examples, on_home
from holdfast.cli.values import now
from holdfast.clock import between, duration
from holdfast.commands import NAMED, Command
from holdfast.commands.queue import (
    FIRST,
    NUMBERS,
    ChangeQueue,
    ListQueues,
    OnQueue,
    PauseQueue,
    PurgeQueue,
    ResetQueue,
    ResumeQueue,
    ShowQueue,
)
from holdfast.flow.standing import QueueStatus
from holdfast.keys import LARGEST_PAGE

HEADINGS: Final = ("APP", "QUEUE", "", "BEGUN", "LIMIT", "PER KEY", "RATE", "WAIT", "OLDEST (UTC)", "")
SLOTS: Final = ("BEGUN (UTC)", "", "KEY", "EXECUTION")
WAITERS: Final = ("SINCE (UTC)", "", "KEY", "EXECUTION", "HEAD START")
KEYS: Final = ("KEY", "BEGUN", "WAIT")

name_argument: Final = click.argument("name", metavar="[APP/]NAME")


@click.group("queue")
def queue() -> None:
    """Look at the queues that executions wait in, and change them while they work.

    NAME is a queue of the app, or the only one of this name in the home; else write APP/NAME.
    """


@queue.command(
    "ls", epilog=examples("holdfast queue ls -a shop:app", "holdfast queue ls --home sqlite:///shop.db --json")
)
@limit_option
@after_option
@on_home
def ls(session: Session, *, limit: int, after: str | None) -> None:
    """List queues: how many executions have begun and wait in each, and since when the first waits.

    At most some thousand that wait are counted of each. Where a home cannot list queues (AWS), name the app: those that
    it declares are listed.
    """
    page = session.perform(ListQueues(after, limit))
    rows = [_row(each) for each in page.items]
    lines = table(HEADINGS, rows) if rows else ["no queues"]
    more = [] if page.after is None else [f"there are more: add --after {page.after}"]
    session.answer({"queues": page.items, "cursor": page.after}, "\n".join([*lines, *more]))


def _row(each: QueueStatus) -> tuple[str, ...]:
    numbers = shown_number(each.limit), shown_number(each.limit_per_key), shown_rate(each.rate)
    begun, waiting = f"{len(each.slots):,}", f"{each.waiting:,}"
    return each.app, each.name, _state(each), begun, *numbers, waiting, *_since(each.oldest)


def _state(each: QueueStatus) -> str:
    return "paused" if each.paused else "purging" if each.purging else ""


@queue.command(
    "show",
    epilog=examples(
        "holdfast queue show -a shop:app mail",
        "holdfast queue show --home sqlite:///shop.db shop/mail --key acme --json",
    ),
)
@name_argument
@click.option("--key", help="Only what is of this key.")
@click.option(
    "--first",
    type=click.IntRange(1, LARGEST_PAGE),
    default=FIRST,
    show_default=True,
    help="How many waiters to show.",
)
@on_home
def show(session: Session, *, name: str, key: str | None, first: int) -> None:
    """Show a queue: its numbers, who has its slots and since when, who waits, and when the next token comes."""
    found = session.perform(ShowQueue(name, key, first))
    session.answer(found, "\n".join(_lines(found)))


def _lines(found: QueueStatus) -> Iterator[str]:
    state = _state(found)
    yield bold(f"{found.app}/{found.name}") + (f"  {coloured(state, 'PAUSED')}" if state else "")
    yield f"  limit        {shown_number(found.limit)}, {shown_number(found.limit_per_key)} per key"
    yield f"  rate         {shown_rate(found.rate)}, {shown_rate(found.rate_per_key)} per key"
    if found.most_waiting is not None:
        yield f"  most waiting {shown_number(found.most_waiting)}"
    if found.next_token is not None:
        yield f"  next token   {shown_moment(found.next_token, milliseconds=True)} UTC"
    yield f"  decided by   {plain(found.decided_by or 'nobody now: a worker with the queue in its code decides')}"
    yield f"  begun        {len(found.slots):,}"
    oldest = "" if found.oldest is None else ", the first " + " UTC, ".join(_since(found.oldest))
    yield f"  wait         {found.waiting:,}{oldest}"
    if len(found.keys) > 1:
        yield from _table(KEYS, [(plain(each.key), f"{each.held:,}", f"{each.waiting:,}") for each in found.keys])
    slots = [(*_since(each.since), plain(each.key), f"{each.workflow} {plain(each.id)}") for each in found.slots]
    yield from _table(SLOTS, slots)
    waiters = [
        (
            *_since(each.since),
            plain(each.key),
            f"{each.workflow} {plain(each.id)}",
            duration(each.ahead_ms) if each.ahead_ms else "",
        )
        for each in found.first
    ]
    yield from _table(WAITERS, waiters)


def _table(headings: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> Iterator[str]:
    if rows:
        yield ""
        yield from table(headings, rows, indent="  ")


def _since(when: datetime | None) -> tuple[str, str]:
    """A moment, and how long ago it was."""
    return ("", "") if when is None else (shown_moment(when), f"for {duration(max(0, between(when, now())))}")


@queue.command("pause", epilog=examples("holdfast queue pause -a shop:app mail"))
@name_argument
@on_home
def pause(session: Session, *, name: str) -> None:
    """Let nothing begin in a queue until it is resumed. What has begun goes on."""
    _change(session, PauseQueue(name), f"{name}: nothing begins until it is resumed")


@queue.command("resume", epilog=examples("holdfast queue resume -a shop:app mail"))
@name_argument
@on_home
def resume(session: Session, *, name: str) -> None:
    """Let executions of a queue begin again."""
    _change(session, ResumeQueue(name), f"{name}: executions begin again")


@queue.command(
    "set",
    epilog=examples(
        "holdfast queue set -a shop:app mail limit=10 rate=100/1m",
        "holdfast queue set --home sqlite:///shop.db mail limit_per_key=none rate_per_key=5/1s/10",
    ),
)
@name_argument
@click.argument("numbers", metavar="NAME=VALUE...", nargs=-1, required=True)
@on_home
def change(session: Session, *, name: str, numbers: tuple[str, ...]) -> None:
    """Change numbers of a queue, for all workers, until they are changed again or reset.

    They are limit, limit_per_key, rate and rate_per_key. A rate is COUNT/TIME, or COUNT/TIME/BURST; none is no limit. A
    lower limit takes no slot away: nothing begins until enough executions have ended.
    """
    _change(session, ChangeQueue(name, **given(numbers, NUMBERS)), f"{name}: {' '.join(numbers)} from now on")


@queue.command("reset", epilog=examples("holdfast queue reset -a shop:app mail"))
@name_argument
@on_home
def reset(session: Session, *, name: str) -> None:
    """Have the numbers of a queue be those of the code again. A pause stays."""
    _change(session, ResetQueue(name), f"{name}: the numbers of the code hold again")


@queue.command(
    "purge",
    epilog=examples(
        "holdfast queue purge -a shop:app mail",
        "holdfast queue purge --home sqlite:///shop.db mail --key acme --yes",
    ),
)
@name_argument
@click.option("--key", help="Only what waits under this key.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@on_home
def purge(session: Session, *, name: str, key: str | None, yes: bool) -> None:
    """End what waits in a queue now, as CANCELLED. What has begun goes on, and what is started later waits as ever.

    The order is durable. A worker with the queue in its code carries it out.
    """
    if not yes:
        told = session.perform(ShowQueue(name, key, 1))
        click.confirm(f"{told.app}/{told.name}: {told.waiting:,} executions wait. End them?", abort=True, err=True)
    command = PurgeQueue(name, key)
    _change(session, command, f"{command}: what waits now ends as CANCELLED")


def change_and_tell(session: Session, command: Command[None], kind: str, name: str, told: str) -> None:
    """Perform what changes a queue or a limit, and tell what it was."""
    session.perform(command)
    session.answer({kind: name, "action": NAMED[type(command)].name.removeprefix(f"{kind} ")}, told)


def _change(session: Session, command: OnQueue, told: str) -> None:
    change_and_tell(session, command, "queue", command.queue, told)
