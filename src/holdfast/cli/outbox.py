"""``holdfast outbox``: the events that are published and not yet delivered to their consumers."""

from __future__ import annotations

from typing import Final

import click

from holdfast.app import App
from holdfast.cli.declaring import listing
from holdfast.cli.output import plain, shown_moment, table
from holdfast.cli.scanning import scan_option
from holdfast.cli.session import Session, examples, on_home
from holdfast.cli.values import now
from holdfast.clock import between, duration
from holdfast.commands.system import ListOutbox
from holdfast.messaging.listing import QUEUES, WaitingEvent, WaitingPage

HEADINGS: Final = ("PUBLISHED (UTC)", "", "APP", "EVENT", "ID", "GROUP", "TO", "PROBLEM")
NOBODY: Final = "(nobody)"


@click.group("outbox")
def outbox() -> None:
    """Inspect the events that wait to be delivered to their consumers.

    A worker of the app delivers them at once. Events that wait for long need a worker to be started.
    """


@listing(
    "holdfast outbox ls -a shop:app",
    "holdfast outbox ls --home sqlite:///shop.db shop --limit 10 --json",
    of="APP",
)
@click.option("--queue", type=click.Choice(QUEUES), help="Only those that wait for consumers, for the bus, or for you.")
@scan_option
@on_home
def ls(session: Session, *, name: str | None, queue: str | None, limit: int, after: str | None, scan: bool) -> None:
    """List the events that wait, without their payloads: those of all apps of the home, or of one.

    They come in the order of delivery. The events of a group are handled in their order; TO names the subscribed
    consumers. Events for the bus come after them; one with a PROBLEM waits for you: resend or discard it.
    """
    page = session.perform(ListOutbox(name, queue, after, limit, scan))
    session.answer({"events": page.items, "cursor": page.after}, "\n".join(_lines(page)))


@outbox.command(
    "resend", epilog=examples("holdfast outbox resend -a shop:app", "holdfast outbox resend -a shop:app web-18")
)
@click.argument("id", required=False)
@on_home
def resend(session: Session, *, id: str | None) -> None:
    """Send events of the app again that the bus has refused for good: all of them, or the one with this ID."""

    async def again(app: App) -> int:
        return await app.outbox.resend(id)

    _tell(session, session.change("outbox resend", id or "all", again), "to be sent again")


@outbox.command("discard", epilog=examples("holdfast outbox discard -a shop:app web-18"))
@click.argument("id")
@on_home
def discard(session: Session, *, id: str) -> None:
    """Drop the event with this ID that the bus has refused for good. The app's own consumers still get it."""

    async def forget(app: App) -> int:
        return await app.outbox.discard(id)

    _tell(session, session.change("outbox discard", id, forget), "forgotten")


def _tell(session: Session, count: int, what: str) -> None:
    session.answer({"events": count}, f"{count} {'event is' if count == 1 else 'events are'} {what}")


def _lines(page: WaitingPage) -> list[str]:
    if not page.items:
        return ["no events wait"]
    shown = len(HEADINGS) if any(each.problem for each in page.items) else len(HEADINGS) - 1
    lines = table(HEADINGS[:shown], [_row(each)[:shown] for each in page.items])
    return lines if page.after is None else [*lines, f"there are more: add --after {page.after}"]


def _row(event: WaitingEvent) -> tuple[str, ...]:
    age = f"for {duration(max(0, between(event.published_at, now())))}"
    to = ", ".join(event.consumers) or NOBODY
    when = shown_moment(event.published_at)
    return when, age, event.app, event.event, plain(event.id), plain(event.group or ""), to, plain(event.problem or "")


outbox.add_command(ls)
