"""``holdfast limit``: how limits of calls stand, and changing their numbers while they work."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import click

from holdfast.cli.declaring import after_option, limit_option
from holdfast.cli.numbers import given, shown_number, shown_rate
from holdfast.cli.output import bold, plain, shown_moment, table
from holdfast.cli.queue import change_and_tell, name_argument
from holdfast.cli.session import Session, examples, on_home
from holdfast.commands.limit import NUMBERS, ChangeLimit, ListLimits, OnLimit, ResetLimit, ShowLimit
from holdfast.flow.overrides import LimitStatus

HEADINGS: Final = ("APP", "LIMIT", "PERMITS", "LENT", "RATE", "WAIT", "PROCESSES")
LOANS: Final = ("PERMITS", "WAIT", "UNTIL (UTC)", "PROCESS")


@click.group("limit")
def limit() -> None:
    """Look at the limits of calls, and change their numbers while they work.

    NAME is a limit of the app; write APP/NAME for one of another app, or without its code.
    """


@limit.command("ls", epilog=examples("holdfast limit ls -a shop:app", "holdfast limit ls -a shop:app --json"))
@limit_option
@after_option
@on_home
def ls(session: Session, *, limit: int, after: str | None) -> None:
    """List the limits that the app declares: how many permits are lent, to how many processes, and what waits.

    What is of keys is left out: see show.
    """
    page = session.perform(ListLimits(after, limit))
    rows = [_row(each) for each in page.items]
    lines = table(HEADINGS, rows) if rows else ["no limits in this code"]
    more = [] if page.after is None else [f"there are more: add --after {page.after}"]
    session.answer({"limits": page.items, "cursor": page.after}, "\n".join([*lines, *more]))


def _row(each: LimitStatus) -> tuple[str, ...]:
    lent, waiting = f"{each.lent:,}", f"{each.waiting:,}"
    numbers = shown_number(each.permits), lent, shown_rate(each.rate), waiting
    return each.app, each.name, *numbers, f"{len(each.loans):,}"


@limit.command(
    "show",
    epilog=examples(
        "holdfast limit show -a shop:app bank",
        "holdfast limit show --home sqlite:///shop.db shop/bank --key acme --json",
    ),
)
@name_argument
@click.option("--key", default="", help="Only what is of this key.")
@on_home
def show(session: Session, *, name: str, key: str) -> None:
    """Show a limit: its numbers, which process has how many permits, what waits there, and when the next token comes.

    A process writes what waits in it every few seconds.
    """
    found = session.perform(ShowLimit(name, key))
    session.answer(found, "\n".join(_lines(found)))


def _lines(found: LimitStatus) -> Iterator[str]:
    yield bold(f"{found.app}/{found.name}") + (f"  key {plain(found.key)}" if found.key else "")
    yield f"  permits      {shown_number(found.permits)}, {found.lent:,} lent"
    yield f"  rate         {shown_rate(found.rate)}"
    if found.next_at is not None:
        yield f"  next token   {shown_moment(found.next_at, milliseconds=True)} UTC"
    yield f"  wait         {found.waiting:,}"
    if found.keys:
        yield f"  keys         {', '.join(map(plain, found.keys))}"
    if found.loans:
        yield ""
        rows = [
            (f"{each.permits:,}", f"{each.waiting:,}", shown_moment(each.until), plain(each.owner))
            for each in found.loans
        ]
        yield from table(LOANS, rows, indent="  ")


@limit.command(
    "set",
    epilog=examples(
        "holdfast limit set -a shop:app bank permits=4 rate=20/1s/5",
        "holdfast limit set --home sqlite:///shop.db shop/bank permits=0",
    ),
)
@name_argument
@click.argument("numbers", metavar="NAME=VALUE...", nargs=-1, required=True)
@on_home
def change(session: Session, *, name: str, numbers: tuple[str, ...]) -> None:
    """Change numbers of a limit, for all processes, until they are changed again or reset.

    They are permits and rate. A rate is COUNT/TIME, or COUNT/TIME/BURST; none is no limit. With permits=0 no call
    begins. Calls that have begun go on.
    """
    _change(session, ChangeLimit(name, **given(numbers, NUMBERS)), f"{' '.join(numbers)} from now on")


@limit.command("reset", epilog=examples("holdfast limit reset -a shop:app bank"))
@name_argument
@on_home
def reset(session: Session, *, name: str) -> None:
    """Have the numbers of a limit be those of the code again."""
    _change(session, ResetLimit(name), "the numbers of the code hold again")


def _change(session: Session, command: OnLimit, told: str) -> None:
    change_and_tell(session, command, "limit", command.limit, f"{command.limit}: {told}")
