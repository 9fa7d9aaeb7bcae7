"""``holdfast dlq``: the parked messages of all actors and consumers of a home."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterator
from datetime import datetime
from typing import Any, Final

import click
from msgspec import Raw, Struct

from holdfast.actors.admin.handle import ActorHandle
from holdfast.actors.admin.listing import LARGEST_PAGE, ParkedMessage, find_parked
from holdfast.actors.record import HIDDEN_MARK
from holdfast.app import App
from holdfast.cli.actor import args_option, mending_app
from holdfast.cli.actor_show import error_line, pretty
from holdfast.cli.output import bold, plain, shown_moment, table
from holdfast.cli.session import Session, examples, on_home
from holdfast.errors import NotFound

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

    The messages of a consumer belong to a hidden actor, whose name begins with "!".
    """


@dlq.command(
    "ls",
    epilog=examples(
        "holdfast dlq ls -a shop:app",
        "holdfast dlq ls --home sqlite:///shop.db Cart --limit 10 --json",
    ),
)
@click.argument("name", required=False)
@click.option("--limit", type=click.IntRange(1, LARGEST_PAGE), default=50, show_default=True, help="The most to list.")
@click.option("--after", metavar="CURSOR", help="Continue where an earlier list ended.")
@on_home
def ls(session: Session, *, name: str | None, limit: int, after: str | None) -> None:
    """List parked messages in the order they were sent: all of them, or those of one class of actors."""
    page = session.run(lambda app: app.parked(name, after=after, limit=limit))
    rows = [_row(each) for each in page.items]
    session.answer({"messages": rows, "cursor": page.after}, "\n".join(_list_lines(rows, page.after)))


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
    parked = session.run(lambda app: _find(app, id))
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
        yield from (f"    {plain(line)}" for line in message.error.traceback.splitlines())


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
    """Put parked messages back into the inboxes of their actors, with new attempts.

    They are placed behind the messages that wait there, in the order they were sent. With --args a message gets other
    arguments (for a consumer's: another event), and the app's code is needed to check them.
    """
    _check_choice(ids, actor, everything=everything)
    if args is not None and len(ids) != 1:
        raise click.UsageError("--args is for one message: name its id.")
    app = mending_app(session, with_code=args is not None)

    async def again(handle: ActorHandle, parked: ParkedMessage) -> None:
        await handle.unpark(parked.message.place, args=None if args is None else _arguments(parked, args))

    done = session.change("dlq redrive", _named(ids, actor), lambda app: _each(app, ids, actor, again), app)
    _tell(session, "redrive", done, "is in the inbox again")


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

    async def drop(handle: ActorHandle, parked: ParkedMessage) -> None:
        await handle.discard(parked.message.place)

    done = session.change("dlq discard", _named(ids, actor), lambda app: _each(app, ids, actor, drop))
    _tell(session, "discard", done, "dropped")


# ── What was chosen ─────────────────────────────────────────────────────────────────────────────────────────────────


def _check_choice(ids: tuple[str, ...], actor: str | None, *, everything: bool) -> None:
    if bool(ids) == everything:
        raise click.UsageError(NOBODY_ASKED if not ids else "Name ids, or add --all, not both.")
    if actor is not None and not everything:
        raise click.UsageError("--actor goes with --all.")


async def _each(
    app: App,
    ids: tuple[str, ...],
    actor: str | None,
    mend: Callable[[ActorHandle, ParkedMessage], Coroutine[Any, Any, None]],
) -> list[ParkedMessage]:
    """Repair the named messages, or all there are now. Every named message is found before one is changed."""
    chosen = [await _find(app, id) for id in ids] if ids else await _all(app, actor)
    done: list[ParkedMessage] = []
    for each in sorted(chosen, key=lambda each: (each.message.sent_at, each.message.place)):
        try:
            await mend(app.actor(each.actor, each.key), each)
        except NotFound:
            if ids:
                raise
            continue  # another command has repaired it meanwhile
        done.append(each)
    return done


async def _all(app: App, actor: str | None) -> list[ParkedMessage]:
    found: list[ParkedMessage] = []
    after: str | None = None
    while True:
        page = await app.parked(actor, after=after, limit=LARGEST_PAGE)
        found += page.items
        if (after := page.after) is None:
            return found


async def _find(app: App, id: str) -> ParkedMessage:
    try:
        return await find_parked(app.runtime(), id)
    except NotFound as error:
        page = await app.parked(limit=LARGEST_PAGE)
        count = f"{len(page.items)}{'' if page.after is None else ' or more'}"
        there_are = f"there are {count}: see holdfast dlq ls" if page.items else "nothing is parked here"
        raise NotFound(f"{error}; {there_are}") from None


def _named(ids: tuple[str, ...], actor: str | None) -> str:
    """The request, for the audit."""
    return " ".join(ids) or f"all of {actor or 'all actors'}"


def _arguments(parked: ParkedMessage, text: str) -> Any:
    """The given arguments; for a consumer's message they are its event."""
    arguments: dict[str, Any] = parked.message.args
    given = Raw(text.encode())
    is_event = parked.actor.startswith(HIDDEN_MARK) and "event" in arguments
    return arguments | {"event": given} if is_event else given


def _tell(session: Session, action: str, done: list[ParkedMessage], told: str) -> None:
    messages = [{"id": each.id, "actor": each.actor, "key": each.key} for each in done]
    lines = [f"{each.actor} {plain(each.key)}: {each.message.method} {told}" for each in done]
    session.answer({"action": action, "messages": messages}, "\n".join(lines) or "no parked messages")
