"""``holdfast callback``: answer a callback from the command line, by its token."""

from __future__ import annotations

from typing import Any, Final

import click

from holdfast.cli.session import Session, examples, on_home
from holdfast.cli.values import json_value, token
from holdfast.commands.callback import Complete, Fail, Heartbeat

token_argument: Final = click.argument("token", metavar="TOKEN", type=token)


@click.group("callback")
def callback() -> None:
    """Answer a callback, once. The token is the permission. TOKEN may be - to read it from standard input."""


@callback.command(
    "complete",
    epilog=examples(
        'holdfast callback complete --home sqlite:///shop.db hf1.eyJ… \'{"tracking": "3SABC"}\'',
        'echo "$TOKEN" | holdfast callback complete -a shop:app - true',
    ),
)
@token_argument
@click.argument("value", metavar="[JSON]", type=json_value, default="null")
@on_home
def complete(session: Session, *, token: str, value: Any) -> None:
    """Answer with a value."""
    session.perform(Complete(token, value))
    session.answer({"action": "complete"}, "the callback is completed")


@callback.command(
    "fail",
    epilog=examples(
        "holdfast callback fail -a shop:app hf1.eyJ… 'the parcel is lost' --type ParcelLost",
    ),
)
@token_argument
@click.argument("message")
@click.option("--type", "error_type", default="CallbackFailed", show_default=True, help="The name of the error.")
@on_home
def fail(session: Session, *, token: str, message: str, error_type: str) -> None:
    """Answer with a failure: the body sees StepFailed with this type and message."""
    session.perform(Fail(token, message, error_type))
    session.answer({"action": "fail"}, "the callback is failed")


@callback.command(
    "heartbeat",
    epilog=examples(
        "holdfast callback heartbeat -a shop:app hf1.eyJ…",
    ),
)
@token_argument
@on_home
def heartbeat(session: Session, *, token: str) -> None:
    """Report that the work continues: the callback's heartbeat time-out starts again."""
    session.perform(Heartbeat(token))
    session.answer({"action": "heartbeat"}, "the callback is kept alive")
