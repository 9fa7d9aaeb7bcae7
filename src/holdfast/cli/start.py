"""``holdfast start`` and ``holdfast result``: start an execution, and wait for its end."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Final

import click
from msgspec import Raw

from holdfast.app import App
from holdfast.cli.declaring import on_execution
from holdfast.cli.output import as_json
from holdfast.cli.session import Session, examples, on_home
from holdfast.cli.values import duration, json_text, later, tag
from holdfast.commands import IN_HOME, perform
from holdfast.commands.execution import Result, Start
from holdfast.workflows.status import status_of

timeout_option: Final = click.option(
    "--timeout", metavar="DURATION", type=duration, help="Wait no longer than this, for example 30s."
)


@click.command(
    "start",
    epilog=examples(
        'holdfast start -a shop:app checkout \'{"order": {"id": 17}}\' --id order-17',
        "holdfast start -a shop:app checkout @order.json --tag customer=acme --wait",
        "holdfast start -a shop:app remind '[17]' --delay 2d --id remind-17",
    ),
)
@click.argument("workflow")
@click.argument("input", metavar="[JSON]", type=json_text, default="[]")
@click.option("--id", "id", help="The execution's id; a new one by default. The same id and input start it once.")
@click.option(
    "--tag", "tags", metavar="KEY=VALUE", type=tag, multiple=True, help="A label to find it by; may be repeated."
)
@click.option("--delay", metavar="DURATION", type=duration, help="Start after this time, for example 5m.")
@click.option("--at", metavar="WHEN", type=later, help="Start then, for example 2030-11-30T12:00Z.")
@click.option("--limit", metavar="DURATION", type=duration, help="End it as TIMED_OUT if it takes longer than this.")
@click.option("--wait", is_flag=True, help="Wait for the result and print it.")
@timeout_option
@on_home
def start(  # noqa: PLR0913 - one for each option
    session: Session,
    *,
    workflow: str,
    input: str,
    id: str | None,
    tags: tuple[tuple[str, str], ...],
    delay: float | None,
    at: datetime | None,
    limit: float | None,
    wait: bool,
    timeout: float | None,
) -> None:
    """Start an execution of a workflow, durably, and print its id.

    JSON holds the arguments: an object by name, an array in order, or the one argument itself; @file reads it from a
    file, - from standard input. It is checked against the workflow's type hints. Needs the app's code, and a worker
    somewhere to run the execution.
    """
    command = Start(workflow, Raw(input.encode()), id, dict(tags), limit, delay, at)

    async def begin(app: App) -> tuple[str, Any]:
        started = status_of(await perform(command, app, names=IN_HOME)).id
        waited = Result(workflow, started, timeout)
        return started, await perform(waited, app, names=IN_HOME) if wait else None

    started, result = session.run(begin, session.app_for(command))
    answer = {"workflow": workflow, "id": started}
    if wait:
        session.answer({**answer, "result": result}, as_json(result, exact=True), exact=True)
    else:
        session.answer(answer, started)


@on_execution(
    "result",
    "holdfast result --home sqlite:///shop.db checkout order-17",
    "holdfast result -a shop:app checkout order-17 --timeout 30s",
)
@timeout_option
@on_home
def result(session: Session, *, workflow: str, id: str, timeout: float | None) -> None:
    """Wait until an execution has ended, and print its result as JSON.

    If it did not return one, the error says how it ended, and the exit status is 1.
    """
    value = session.perform(Result(workflow, id, timeout))
    session.answer({"workflow": workflow, "id": id, "result": value}, as_json(value, exact=True), exact=True)
