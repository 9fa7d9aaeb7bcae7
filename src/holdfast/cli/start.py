"""``holdfast start`` and ``holdfast result``: start an execution, and wait for its end."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Final

import click

from holdfast import ids
from holdfast.app import App
from holdfast.cli.output import as_json
from holdfast.cli.session import Session, examples, handle_on, on_home
from holdfast.cli.values import duration, json_text, later, tag
from holdfast.clock import SystemClock
from holdfast.workflows.launch import launch
from holdfast.workflows.starting import start_options

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
    app = session.app()
    found = app.registry.workflow(workflow)
    options = start_options(id=id, tags=dict(tags), timeout=limit, delay=delay, at=at)
    now = SystemClock().now_ms()
    parsed = found.signature.parse(input, f"workflow {workflow!r}")
    order = options.order(parsed, now, new_id=ids.new_ordered_id(now), tags={})

    async def begin(app: App) -> Any:
        runtime = app.runtime()
        await launch(runtime.home, runtime.host, found, order, runtime.clock)
        return await handle_on(app, workflow, order.id).result(timeout) if wait else None

    result = session.run(begin, app)
    answer = {"workflow": workflow, "id": order.id}
    if wait:
        session.answer({**answer, "result": result}, as_json(result, exact=True), exact=True)
    else:
        session.answer(answer, order.id)


@click.command(
    "result",
    epilog=examples(
        "holdfast result --home sqlite:///shop.db checkout order-17",
        "holdfast result -a shop:app checkout order-17 --timeout 30s",
    ),
)
@click.argument("workflow")
@click.argument("id")
@timeout_option
@on_home
def result(session: Session, *, workflow: str, id: str, timeout: float | None) -> None:
    """Wait until an execution has ended, and print its result as JSON.

    If it did not return one, the error says how it ended, and the exit status is 1.
    """
    value = session.run(lambda app: handle_on(app, workflow, id).result(timeout))
    session.answer({"workflow": workflow, "id": id, "result": value}, as_json(value, exact=True), exact=True)
