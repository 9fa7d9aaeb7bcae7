"""``holdfast stream``: delete the event streams that nothing was appended to for long."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any, Final

import click
from msgspec import Struct

from holdfast.app import App
from holdfast.cli.output import plain, shown_moment, table
from holdfast.cli.progress import Ticker
from holdfast.cli.session import Session, examples, on_home
from holdfast.cli.values import duration, now
from holdfast.errors import Conflict, UnknownName

HEADINGS: Final = ("STREAMS", "KEY", "EVENTS", "LAST (UTC)")


class Old(Struct, frozen=True):
    """A stream whose last event is old."""

    streams: str
    key: tuple[str, ...]
    version: int
    last_at: datetime


@click.group("stream")
def stream() -> None:
    """Delete old event streams."""


@stream.command(
    "prune",
    epilog=examples(
        "holdfast stream prune -a shop:app --older-than 90d --dry-run",
        "holdfast stream prune -a shop:app --older-than 90d --streams Account",
    ),
)
@click.option(
    "--older-than", metavar="DURATION", type=duration, required=True, help="Only those without an event for this long."
)
@click.option("--streams", "name", help="Only of this collection, by its name in the store.")
@click.option("--dry-run", is_flag=True, help="Only print what would be deleted.")
@on_home
def prune(session: Session, *, older_than: float, name: str | None, dry_run: bool) -> None:
    """Delete the streams of the app to which nothing was appended for long, with all their events.

    Each is deleted as by stream.delete(), unless an event has come meanwhile. The names of all partitions of the home
    are read. To continue after an interruption, run the same command again: it also ends what was begun.
    """
    app = session.app()
    before = now() - timedelta(seconds=older_than)
    if dry_run:
        found = session.run(lambda opened: _prune(opened, name, before, session, deletes=False), app)
    else:
        what = f"{name or 'all'} without an event since {before:%Y-%m-%dT%H:%M:%SZ}"
        found = session.change(
            "stream prune", what, lambda opened: _prune(opened, name, before, session, deletes=True), app
        )
    told = "would be deleted" if dry_run else "were deleted"
    lines = [*(table(HEADINGS, [_row(each) for each in found]) if found else []), f"{len(found)} streams {told}"]
    session.answer({"streams": found, "deleted": not dry_run}, "\n".join(lines))


async def _prune(app: App, name: str | None, before: datetime, session: Session, *, deletes: bool) -> list[Old]:
    declared: dict[str, Any] = {known: made for known, (_, made) in app.registry.streams.items()}
    if name is not None and name not in declared:
        raise UnknownName(f"no streams are called {name!r} here; there are: {', '.join(sorted(declared)) or 'none'}")
    found: list[Old] = []
    with Ticker(quiet=session.json) as ticker:
        for known in sorted(declared) if name is None else [name]:
            async for idle in declared[known].idle(before):
                try:
                    if deletes:
                        await idle.stream.delete(version=idle.version)
                except Conflict:
                    continue  # an event has come meanwhile
                found.append(Old(known, idle.stream.key, idle.version, idle.last_at))
                ticker.tell(f"{len(found):,} streams", len(found))
    return found


def _row(old: Old) -> tuple[str, ...]:
    return old.streams, plain("/".join(old.key)), f"{old.version:,}", shown_moment(old.last_at)
