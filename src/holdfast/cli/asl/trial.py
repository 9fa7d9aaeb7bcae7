"""``holdfast asl run`` and ``holdfast asl cost``: a whole machine on a home in memory, with mocks of its tasks."""

from __future__ import annotations

import asyncio
import json
from typing import Any, Final

import click
from msgspec import Struct

from holdfast.app import App
from holdfast.asl.declaring import StateMachine
from holdfast.asl.errors import Error
from holdfast.asl.events import Event
from holdfast.asl.jsontext import compact
from holdfast.asl.reading import events_of
from holdfast.cli.asl import asl
from holdfast.cli.asl.given import Given, of_definition
from holdfast.cli.asl.mocks import input_option, mock_option, trial_app
from holdfast.cli.output import as_json, bold, coloured, dollars, echo, table
from holdfast.cli.session import debug_option, examples, json_option
from holdfast.cli.values import json_value
from holdfast.cost.bill import Bill
from holdfast.cost.deployments import Deployment
from holdfast.cost.metering import uncounted
from holdfast.cost.ours import Used, bill_of
from holdfast.cost.prices import US_EAST_1
from holdfast.cost.step_functions import standard
from holdfast.cost.trial import Path as Way
from holdfast.cost.trial import try_out
from holdfast.errors import ExecutionError, ExecutionFailed
from holdfast.testing import run_virtual
from holdfast.workflows.launch import Launch, launch
from holdfast.workflows.record import partition_of

ID: Final = "trial"
EXAMPLE: Final = '\'{"Pay": {"Return": {"paid": true}}}\''


class Ended(Struct, frozen=True):
    """How an execution ended, and its events."""

    status: str
    output: Any
    error: str | None
    cause: str | None
    events: list[Event]

    @property
    def entered(self) -> int:
        """How many states were entered: the transitions of Step Functions, without retries."""
        return sum(event.type.endswith("StateEntered") for event in self.events)

    @property
    def retries(self) -> int:
        """How many tasks were called again."""
        scheduled = sum(event.type.endswith("Scheduled") for event in self.events)
        return max(0, scheduled - sum(event.type == "TaskStateEntered" for event in self.events))


# ── run ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


@asl.command(
    "run",
    epilog=examples(
        f"holdfast asl run checkout.asl.json --input '{{\"cart\": 7}}' --mock {EXAMPLE}",
        "holdfast asl run checkout.asl.json --input @order.json --mock @mocks.json --json",
    ),
)
@of_definition
@input_option
@mock_option
@click.option("--real-time", is_flag=True, help="On the real clock; otherwise waits of hours pass at once.")
@json_option
@debug_option
def run(*, given: Given, input_: str, mock: str, real_time: bool, as_json: bool, debug: bool) -> int:
    """Run a machine once, in virtual time, on a home in memory, and print its events and what it answers.

    Every Task needs a mock. The exit status is 1 if the execution does not succeed.
    """
    del debug  # the root of the command line looks at it
    app, machine = trial_app(given, mock, real_time=real_time)
    input = json_value(input_)

    async def main() -> Ended:
        async with app.worker():
            await machine.start(input, id=ID)
            return await ended(app, machine)

    found = asyncio.run(main()) if real_time else run_virtual(main)
    echo(_run_json(found) if as_json else "\n".join(_run_lines(found)))
    return int(found.status != "SUCCEEDED")


async def ended(app: App, machine: StateMachine, id: str = ID) -> Ended:
    """How an execution has ended, once it has."""
    output, error, cause, status = None, None, None, "SUCCEEDED"
    try:
        output = await machine.handle(id).result()
    except ExecutionFailed as failed:
        reason = failed.__cause__
        status, error, cause = "FAILED", failed.error_type, failed.error_message
        if isinstance(reason, Error):
            error, cause = reason.error, reason.cause
    except ExecutionError as failed:
        status, cause = failed.code.upper(), str(failed)
    _, events = await events_of(app.runtime(), partition_of(machine.name, id))
    return Ended(status, output, error, cause, events)


def _run_lines(found: Ended) -> list[str]:
    told = {"output": found.output if found.status == "SUCCEEDED" else None, "error": found.error, "cause": found.cause}
    lines = [f"{name}: {as_json(value)}" for name, value in told.items() if value is not None]
    return [
        *table(["after", "event", ""], event_rows(found.events)),
        coloured(found.status, _colour(found.status)),
        *lines,
    ]


def event_rows(events: list[Event]) -> list[list[str]]:
    """A row for each event: how long after the first one, what it is, and of which state."""
    start = events[0].at if events else 0.0
    return [[f"{event.at - start:.3f}s", event.type, _detail(event)] for event in events]


def _detail(event: Event) -> str:
    """What a person wants to know of an event: which state, or which error."""
    shown = [str(event.details[name]) for name in ("name", "resource", "error", "cause") if event.details.get(name)]
    return ": ".join(shown)


def _colour(status: str) -> str:
    return "COMPLETED" if status == "SUCCEEDED" else "FAILED"


def _run_json(found: Ended) -> str:
    events = [
        {"id": each.id, "before": each.before, "at": each.at, "type": each.type, **each.details}
        for each in found.events
    ]
    outcome = {"status": found.status, "output": found.output, "error": found.error, "cause": found.cause}
    return as_json({**outcome, "events": events})


# ── cost ────────────────────────────────────────────────────────────────────────────────────────────────────────────


@asl.command(
    "cost",
    epilog=examples(f"holdfast asl cost checkout.asl.json --input '{{\"cart\": 7}}' --mock {EXAMPLE}"),
)
@of_definition
@input_option
@mock_option
@json_option
@debug_option
def cost(*, given: Given, input_: str, mock: str, as_json: bool, debug: bool) -> None:
    """Run a machine once with mocks, and print what a million executions cost: on Step Functions, and here on AWS.

    Step Functions bills each transition of a standard workflow, retries too. Here the requests of the store and of the
    queue are metered as AWS bills them. What tasks cost themselves is on neither side. A definition of more than 1,000
    characters is read once by each process that starts or runs it: these two reads are counted.
    """
    del debug  # the root of the command line looks at it
    found = compared(given, input_, mock)
    echo(_cost_json(found) if as_json else "\n".join(_cost_lines(found)))


class Compared(Struct, frozen=True):
    """One execution, what it has used, and what a million of it costs here and on Step Functions."""

    ended: Ended
    used: Used
    ours: Bill
    theirs: Bill


def compared(given: Given, input_: str, mock: str) -> Compared:
    """Run the machine of a definition once in virtual time, metered. ``input_`` and ``mock`` are JSON text.

    Raises ``InvalidInput`` for an invalid definition, and for a task without a mock.
    """
    app, machine = trial_app(given, mock)
    found: list[Ended] = []
    arguments = json.dumps([compact(json_value(input_)), machine.machine.text])
    input = machine.workflow.signature.parse(arguments, given.file.name)

    async def one(number: int, deployment: Deployment) -> None:
        client = App("client", home=deployment.open_client, clock=app.clock)
        async with client:
            if not number:  # the first execution of all stores the definition
                await machine.workflow.sharing(input, client.runtime().home)
                return
            order = Launch(id=f"{ID}-{number}", input=input)
            await launch(client.runtime().home, None, machine.workflow, order, app.clock)
        with uncounted():
            found.append(await ended(app, machine, order.id))

    used: Used = run_virtual(lambda: try_out(app, one, runs=1, path=Way.FUNCTIONS, warm_up=1))
    theirs = standard(found[0].entered, retries=found[0].retries)
    return Compared(found[0], used, bill_of(f"Holdfast: {given.file.name}", used), theirs)


def _cost_lines(found: Compared) -> list[str]:
    ended, ours, theirs = found.ended, found.ours, found.theirs
    rows = [
        [each.what, f"{float(each.count):.4g}", dollars(each.usd * 1_000_000)]
        for bill in (theirs, ours)
        for each in bill.lines
        if each.count
    ]
    ratio = theirs.usd / ours.usd if ours.usd else None
    return [
        f"{ended.status}: {ended.entered} states entered, {ended.retries} retries",
        f"Prices of {US_EAST_1.region}, on demand, {US_EAST_1.date}; without what the tasks cost.",
        "",
        *table(["each", "count", "$ per million"], rows),
        bold(f"{theirs.what}: ${dollars(theirs.usd_per_million)} per million"),
        bold(f"{ours.what}: ${dollars(ours.usd_per_million)} per million" + (f", 1/{ratio:.0f}" if ratio else "")),
    ]


def _cost_json(found: Compared) -> str:
    def told(bill: Bill) -> dict[str, Any]:
        return {
            "usd_per_million": float(bill.usd_per_million),
            "lines": [{"what": each.what, "count": float(each.count), "usd": float(each.usd)} for each in bill.lines],
        }

    return as_json(
        {
            "prices": {"region": US_EAST_1.region, "date": US_EAST_1.date},
            "status": found.ended.status,
            "states_entered": found.ended.entered,
            "retries": found.ended.retries,
            "step_functions": told(found.theirs),
            "holdfast": told(found.ours),
        }
    )
