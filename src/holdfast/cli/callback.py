"""``holdfast callback``: answer a callback from the command line, by its token."""

from __future__ import annotations

import click

from holdfast.cli.session import JSON_TEXT, Session, on_home
from holdfast.cli.values import value_of


class TokenText(click.ParamType):
    """A callback token; ``-`` reads it from standard input, where no list of processes shows it."""

    name = "TOKEN"

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        return click.get_text_stream("stdin").readline().strip() if value == "-" else value


token_argument = click.argument("token", type=TokenText())


@click.group("callback")
def callback() -> None:
    """Answer a callback: whoever holds its token may, once. TOKEN may be - to read it from standard input."""


@callback.command("complete")
@token_argument
@click.argument("value", metavar="[JSON]", type=JSON_TEXT, default="null")
@on_home
def complete(session: Session, *, token: str, value: str) -> None:
    """Answer with a value.

    \b
    Examples:
      holdfast callback complete --home sqlite:///shop.db hf1.eyJ… '{"tracking": "3SABC"}'
      echo "$TOKEN" | holdfast callback complete -a shop:app - true
    """
    answer = value_of(value)
    session.run(lambda app: app.callback(token).complete(answer))
    session.answer({"action": "complete"}, "the callback is completed")


@callback.command("fail")
@token_argument
@click.argument("message")
@click.option("--type", "error_type", default="CallbackFailed", show_default=True, help="The name of the error.")
@on_home
def fail(session: Session, *, token: str, message: str, error_type: str) -> None:
    """Answer with a failure: the body sees StepFailed with this type and message.

    \b
    Examples:
      holdfast callback fail -a shop:app hf1.eyJ… 'the parcel is lost' --type ParcelLost
    """
    session.run(lambda app: app.callback(token).fail(message, error_type=error_type))
    session.answer({"action": "fail"}, "the callback is failed")


@callback.command("heartbeat")
@token_argument
@on_home
def heartbeat(session: Session, *, token: str) -> None:
    """Say that the work goes on: the callback's heartbeat time-out starts anew.

    \b
    Examples:
      holdfast callback heartbeat -a shop:app hf1.eyJ…
    """
    session.run(lambda app: app.callback(token).heartbeat())
    session.answer({"action": "heartbeat"}, "the callback is kept alive")
