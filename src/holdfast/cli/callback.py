"""``holdfast callback``: answer a callback from the command line, by its token or by its operation."""

from __future__ import annotations

from typing import Any, Final

import click

from holdfast.cli.session import Session, examples, on_home
from holdfast.cli.values import json_value, token
from holdfast.commands.callback import CALLBACK_FAILED, AnswerCallback, Complete, Fail, Heartbeat

token_argument: Final = click.argument("token", metavar="TOKEN", type=token)


@click.group("callback")
def callback() -> None:
    """Answer a callback, once: by its token, which may be - to read it from standard input, or by its operation."""


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
@click.option("--type", "error_type", default=CALLBACK_FAILED, show_default=True, help="The name of the error.")
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


@callback.command(
    "answer",
    epilog=examples(
        'holdfast callback answer -a shop:app checkout order-17 parcel#0 --value \'{"tracking": "3SABC"}\'',
        "holdfast callback answer --home sqlite:///shop.db checkout order-17 parcel#0 --error 'the parcel is lost'",
    ),
)
@click.argument("workflow")
@click.argument("id")
@click.argument("operation")
@click.option("--value", metavar="JSON", type=json_value, help="Answer with a value; null if neither is given.")
@click.option("--error", metavar="TEXT", help="Answer with a failure: the body sees StepFailed with this message.")
@click.option("--type", "error_type", default=CALLBACK_FAILED, show_default=True, help="The name of the error.")
@on_home
def answer(
    session: Session, *, workflow: str, id: str, operation: str, value: Any, error: str | None, error_type: str
) -> None:
    """Answer a callback that an execution waits for, without its token. holdfast show names its OPERATION."""
    command = AnswerCallback(workflow, id, operation, value, error, error_type)
    session.perform(command)
    told = {"workflow": workflow, "id": id, "operation": operation, "action": "answer"}
    session.answer(told, f"{command}: answered")
