"""``holdfast trace``: send the spans of an execution that ran before to a collector."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlsplit

import click

from holdfast.app import App
from holdfast.cli.declaring import on_execution
from holdfast.cli.session import Session, on_home
from holdfast.errors import ConfigurationError, InvalidInput


@on_execution("trace", "holdfast trace -a shop:app checkout order-17 --otlp http://localhost:4318")
@click.option("--otlp", metavar="URL", required=True, help="A collector that takes OTLP over HTTP.")
@on_home
def trace(session: Session, *, workflow: str, id: str, otlp: str) -> None:
    """Send the spans of an execution, and of its children, to a collector. Their ids are those that they had when it
    ran, so what is there already is not doubled.

    It need not have been traced then. Nothing is written, and no worker has to run.
    """
    if urlsplit(otlp).scheme not in {"http", "https"}:
        raise InvalidInput(f"--otlp is the URL of a collector, such as http://localhost:4318, not {otlp!r}")
    from holdfast import otel  # noqa: PLC0415 - only this command needs the extra

    async def send(app: App) -> int:
        return await otel.send(app, workflow, id, otlp)

    count = _sent(session, send)
    answer = {"workflow": workflow, "id": id, "spans": count}
    session.answer(answer, f"{count} spans of {workflow} {id} sent to {otlp}")


def _sent(session: Session, send: Any) -> int:
    try:
        count: int = session.run(send, session.app())
    except ConnectionError as error:
        raise ConfigurationError(str(error)) from None
    return count
