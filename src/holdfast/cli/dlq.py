"""``holdfast dlq``: the parked messages of all actors and consumers of a home."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import datetime
from functools import partial
from typing import Final

import click
from msgspec import Raw, Struct

from holdfast.actors.admin.listing import ParkedMessage, ParkedPage
from holdfast.app import App
from holdfast.cli.actor import args_option
from holdfast.cli.actor_show import error_line, pretty, traceback_lines
from holdfast.cli.declaring import listing
from holdfast.cli.output import bold, plain, shown_moment, table
from holdfast.cli.session import Session, examples, on_home
from holdfast.commands import IN_HOME, NAMED, Command, perform
from holdfast.commands.arguments import LEFT_OUT
from holdfast.commands.letters import letters_of
from holdfast.commands.message import DropParked, ListParked, Redrive, ShowParked
from holdfast.errors import NotFound
from holdfast.keys import LARGEST_PAGE

HEADINGS: Final = ("ID", "ACTOR", "KEY", "METHOD", "PARKED (UTC)", "ATTEMPTS", "LAST ERROR")
NOBODY_ASKED: Final = "Which messages? Name their ids, as dlq ls shows them, or add --all."

id_arguments: Final = click.argument("ids", metavar="[ID]...", nargs=-1)
all_option: Final = click.option("--all", "everything", is_flag=True, help="All that are parked now.")
actor_option: Final = click.option("--actor", metavar="NAME", help="With --all: only those of this class of actors.")


class Row(Struct, frozen=True, kw_only=True):
    """A parked message in a list, without its arguments."""

    id: str
    actor: str
    key: str
    place: str
    method: str
    sent_at: datetime
    parked_at: datetime | None
    attempts: int
    error: str | None


@click.group("dlq")
def dlq() -> None:
    """Inspect messages that were parked because their attempts failed, and repair them.

    The messages of a consumer belong to a hidden actor, whose name begins with "!". On AWS, the dead letters of the
    queues are among them, with the name of their queue in their ids.
    """


@listing(
    "holdfast dlq ls -a shop:app",
    "holdfast dlq ls --home sqlite:///shop.db Cart --limit 10 --json",
)
@on_home
def ls(session: Session, *, name: str | None, limit: int, after: str | None) -> None:
    """List parked messages in the order they were sent: all of them, or those of one class of actors."""
    page = session.perform(ListParked(name, after=after, limit=limit))
    rows = [_row(each) for each in page.items]
    told = {"messages": rows, "cursor": page.after} | ({"notes": page.notes} if page.notes else {})
    session.answer(told, "\n".join([*_list_lines(rows, page.after), *map(plain, page.notes)]))


def _row(parked: ParkedMessage) -> Row:
    message = parked.message
    return Row(
        id=parked.id,
        actor=parked.actor,
        key=parked.key,
        place=message.place,
        method=message.method,
        sent_at=message.sent_at,
        parked_at=message.parked_at,
        attempts=message.attempts,
        error=None if message.error is None else error_line(message.error),
    )


def _list_lines(rows: list[Row], cursor: str | None) -> Iterator[str]:
    if not rows:
        yield "no parked messages"
        return
    yield from table(HEADINGS, [_cells(row) for row in rows])
    if cursor is not None:
        yield f"there are more: add --after {cursor}"


def _cells(row: Row) -> tuple[str, ...]:
    when = "" if row.parked_at is None else shown_moment(row.parked_at)
    return row.id, row.actor, row.key, row.method, when, str(row.attempts), row.error or ""


@dlq.command(
    "show",
    epilog=examples(
        "holdfast dlq show -a shop:app 019aa5f3c1d24c3f0a91d2b7e0",
    ),
)
@click.argument("id")
@on_home
def show(session: Session, *, id: str) -> None:
    """Show a parked message: its arguments, its last error and where that was raised. Callback tokens are not shown."""
    parked = session.perform(ShowParked(id), explain=partial(_find, id=id))
    session.answer(parked, "\n".join(_lines(parked)))


def _lines(parked: ParkedMessage) -> Iterator[str]:
    message = parked.message
    yield bold(f"{parked.actor} {plain(parked.key)}: {message.method}")
    yield f"  id        {parked.id}"
    yield f"  place     {message.place}"
    yield f"  request   {plain(message.id)}"
    yield f"  sent      {shown_moment(message.sent_at)} UTC"
    if message.parked_at is not None:
        yield f"  parked    {shown_moment(message.parked_at)} UTC, after {message.attempts} attempts"
    yield ""
    yield "  arguments"
    yield from (f"    {plain(line)}" for line in pretty(message.args))
    if message.error is not None:
        yield ""
        yield f"  {error_line(message.error)}"
        yield from traceback_lines(message.error)


@dlq.command(
    "redrive",
    epilog=examples(
        "holdfast dlq redrive --home sqlite:///shop.db 019aa5f3c1d24c3f0a91d2b7e0",
        'holdfast dlq redrive -a shop:app 019aa5f3c1d24c3f0a91d2b7e0 --args \'{"sku": "lamp"}\'',
        "holdfast dlq redrive --home sqlite:///shop.db --all --actor Cart",
    ),
)
@id_arguments
@all_option
@actor_option
@args_option
@on_home
def redrive(session: Session, *, ids: tuple[str, ...], everything: bool, actor: str | None, args: str | None) -> None:
    """Put parked messages back into the inboxes of their actors, with new attempts, and dead letters into their queues.

    They are placed behind the messages that wait there, in the order they were sent. With --args a message gets other
    arguments (for a consumer's: another event), and the app's code is needed to check them.
    """
    _check_choice(ids, actor, everything=everything)
    if args is not None and len(ids) != 1:
        raise click.UsageError("--args is for one message: name its id.")
    again = partial(Redrive, args=LEFT_OUT if args is None else Raw(args.encode()))
    _tell(session, "redrive", _each(session, ids, actor, again, with_code=args is not None))


@dlq.command(
    "discard",
    epilog=examples(
        "holdfast dlq discard --home sqlite:///shop.db 019aa5f3c1d24c3f0a91d2b7e0",
        "holdfast dlq discard --home sqlite:///shop.db --all --actor Cart",
    ),
)
@id_arguments
@all_option
@actor_option
@on_home
def discard(session: Session, *, ids: tuple[str, ...], everything: bool, actor: str | None) -> None:
    """Drop parked messages, for good."""
    _check_choice(ids, actor, everything=everything)
    _tell(session, "discard", _each(session, ids, actor, DropParked))


# ── What was chosen ─────────────────────────────────────────────────────────────────────────────────────────────────


def _check_choice(ids: tuple[str, ...], actor: str | None, *, everything: bool) -> None:
    if bool(ids) == everything:
        raise click.UsageError(NOBODY_ASKED if not ids else "Name ids, or add --all, not both.")
    if actor is not None and not everything:
        raise click.UsageError("--actor goes with --all.")


def _each(
    session: Session,
    ids: tuple[str, ...],
    actor: str | None,
    command: Callable[[str], Command[ParkedMessage]],
    *,
    with_code: bool = False,
) -> ParkedPage:
    """Repair the named messages, or all there are now. Every named message is found before one is changed."""

    async def repair(app: App) -> ParkedPage:
        found = ParkedPage(tuple([await _find(app, id) for id in ids]), None) if ids else await _all(app, actor)
        done: list[ParkedMessage] = []
        for each in sorted(found.items, key=lambda each: (each.message.sent_at, each.message.place)):
            try:
                done.append(await perform(command(each.id), app, names=IN_HOME))
            except NotFound:
                if ids:
                    raise  # else another command has repaired it meanwhile
        return ParkedPage(tuple(done), None, found.notes)

    of_any = command("")
    app = session.app_for(of_any, with_code=with_code)
    return session.change(NAMED[type(of_any)].name, _named(ids, actor), repair, app)


async def _all(app: App, actor: str | None) -> ParkedPage:
    found: list[ParkedMessage] = []
    after: str | None = None
    while True:
        page = await perform(ListParked(actor, after=after, limit=LARGEST_PAGE), app, names=IN_HOME)
        found += page.items
        if (after := page.after) is None:
            return ParkedPage(tuple(found), None, page.notes)


async def _find(app: App, id: str) -> ParkedMessage:
    try:
        return await perform(ShowParked(id), app, names=IN_HOME)
    except NotFound as error:
        if letters_of(app.runtime(), id) is not None:
            raise
        page = await app.parked(limit=LARGEST_PAGE)
        count = f"{len(page.items)}{'' if page.after is None else ' or more'}"
        there_are = f"there are {count}: see holdfast dlq ls" if page.items else "nothing is parked here"
        raise NotFound(f"{error}; {there_are}") from None


def _named(ids: tuple[str, ...], actor: str | None) -> str:
    """The request, for the audit."""
    return " ".join(ids) or f"all of {actor or 'all actors'}"


def _tell(session: Session, action: str, done: ParkedPage) -> None:
    messages = [{"id": each.id, "actor": each.actor, "key": each.key} for each in done.items]
    lines = [f"{each.actor} {plain(each.key)}: {each.message.method} {_became(action, each)}" for each in done.items]
    told = {"action": action, "messages": messages} | ({"notes": done.notes} if done.notes else {})
    session.answer(told, "\n".join([*(lines or ["no parked messages"]), *map(plain, done.notes)]))


def _became(action: str, parked: ParkedMessage) -> str:
    if action == "discard":
        return "dropped"
    return "is in its queue again" if parked.id.endswith(":" + parked.message.id) else "is in the inbox again"


dlq.add_command(ls)
