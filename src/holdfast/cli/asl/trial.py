"""``holdfast asl run``: a whole machine on a home in memory, with mocks of its tasks."""

from __future__ import annotations

import asyncio
from typing import Any, Final

import click
from msgspec import Struct

from holdfast.app import App
from holdfast.asl.declaring import StateMachine
from holdfast.asl.errors import Error
from holdfast.asl.events import Event
from holdfast.asl.reading import events_of
from holdfast.cli.asl import asl
from holdfast.cli.asl.given import Given, of_definition
from holdfast.cli.asl.mocks import input_option, mock_option, trial
from holdfast.cli.output import as_json, coloured, echo, table
from holdfast.cli.session import debug_option, examples, json_option
from holdfast.cli.values import json_value
from holdfast.errors import ExecutionError, ExecutionFailed, InvalidInput
from holdfast.testing import OutOfTime, run_virtual
from holdfast.workflows.record import partition_of

ID: Final = "trial"
EXAMPLE: Final = '\'{"Pay": {"Return": {"paid": true}}}\''


class Walked(Struct, frozen=True):
    """The events of an execution."""

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


class Ended(Walked, frozen=True):
    """How an execution ended, and its events."""

    status: str
    output: Any
    error: str | None
    cause: str | None


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
    tried = trial(given, mock, real_time=real_time)
    app, machine, input = tried.app, tried.machine, json_value(input_)

    async def main() -> Ended:
        async with app.worker():
            await machine.start(input, id=ID)
            return await ended(app, machine)

    try:
        found = asyncio.run(main()) if real_time else run_virtual(main)
    except OutOfTime as late:
        told = "Give its Retry a MaxAttempts, or a mock that succeeds at last; or see it on the real clock: --real-time"
        raise InvalidInput(f"the machine does not end: {late}. {told}") from None
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
    return Ended(events, status, output, error, cause)


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
