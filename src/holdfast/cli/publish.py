"""``holdfast publish``: publish an event to the consumers of the app."""

from __future__ import annotations

import click
from msgspec import Raw

from holdfast.cli.session import Session, examples, on_home
from holdfast.cli.values import json_text
from holdfast.commands.message import Publish


@click.command(
    "publish",
    epilog=examples(
        'holdfast publish -a shop:app OrderPlaced \'{"order": "order-17"}\' --id order-17',
        "holdfast publish -a shop:app OrderPlaced @event.json",
    ),
)
@click.argument("event")
@click.argument("input", metavar="[JSON]", type=json_text, default="{}")
@click.option("--id", "id", help="The event's id: one with an id is handled once, however often it is published.")
@on_home
def publish(session: Session, *, event: str, input: str, id: str | None) -> None:
    """Publish an event of a class that a consumer of the app has declared, durably.

    JSON holds the event; @file reads it from a file, - from standard input. Needs the app's code, and a worker
    somewhere to carry the event to its consumers.
    """
    published = session.perform(Publish(event, Raw(input.encode()), id))
    session.answer({"event": published.event, "id": published.id, "action": "publish"}, f"{event} is published")
