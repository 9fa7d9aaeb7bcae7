"""``holdfast outbox``: the events that are published and not yet carried to their consumers."""

from __future__ import annotations

from typing import Final

import click

from holdfast.actors.listing import LARGEST_PAGE
from holdfast.app import App
from holdfast.cli.output import between, duration, plain, shown_moment, table
from holdfast.cli.session import Session, examples, on_home
from holdfast.cli.values import now
from holdfast.messaging.listing import WaitingEvent, WaitingPage, list_waiting

HEADINGS: Final = ("PUBLISHED (UTC)", "", "APP", "EVENT", "ID", "GROUP", "TO")
NOBODY: Final = "(nobody)"


@click.group("outbox")
def outbox() -> None:
    """Look at the events that wait to be carried to their consumers.

    A worker of their app does that at once: what waits here for long waits for one to be started.
    """


@outbox.command(
    "ls",
    epilog=examples(
        "holdfast outbox ls -a shop:app",
        "holdfast outbox ls --home sqlite:///shop.db shop --limit 10 --json",
    ),
)
@click.argument("name", metavar="[APP]", required=False)
@click.option("--limit", type=click.IntRange(1, LARGEST_PAGE), default=50, show_default=True, help="At most so many.")
@click.option("--after", metavar="CURSOR", help="Go on where an earlier list ended.")
@on_home
def ls(session: Session, *, name: str | None, limit: int, after: str | None) -> None:
    """List the events that wait, without what they say: those of all apps of the home, or of one.

    They come in the order in which they are carried. Those of a group are handled in their order; TO are the consumers
    that have subscribed.
    """

    async def look(app: App) -> WaitingPage:
        return await list_waiting(app.actor_access().home.store, name, after=after, limit=limit)

    page = session.run(look)
    session.answer({"events": page.items, "cursor": page.after}, "\n".join(_lines(page)))


def _lines(page: WaitingPage) -> list[str]:
    if not page.items:
        return ["no events wait"]
    lines = table(HEADINGS, [_row(each) for each in page.items])
    return lines if page.after is None else [*lines, f"there are more: add --after {page.after}"]


def _row(event: WaitingEvent) -> tuple[str, ...]:
    age = f"for {duration(max(0, between(event.published_at, now())))}"
    to = ", ".join(event.consumers) or NOBODY
    when = shown_moment(event.published_at)
    return when, age, event.app, event.event, plain(event.id), plain(event.group or ""), to
