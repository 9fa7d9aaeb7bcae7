"""``holdfast asl cost``: what a million executions of a machine cost, here on AWS and on Step Functions."""

from __future__ import annotations

import json
from contextlib import AsyncExitStack
from typing import Any

import msgspec
from msgspec import Struct

from holdfast.app import App
from holdfast.asl.jsontext import compact
from holdfast.asl.orders import Child, items_of
from holdfast.asl.reading import events_of
from holdfast.cli.asl import asl
from holdfast.cli.asl.given import Given, of_definition
from holdfast.cli.asl.mocks import Trial, input_option, mock_option, trial
from holdfast.cli.asl.trial import EXAMPLE, Ended, Walked, ended
from holdfast.cli.output import as_json, bold, dollars, echo, table
from holdfast.cli.session import debug_option, examples, json_option
from holdfast.cli.values import json_value
from holdfast.cost.bill import Bill
from holdfast.cost.deployments import Deployment
from holdfast.cost.metering import uncounted
from holdfast.cost.ours import Used, bill_of
from holdfast.cost.prices import US_EAST_1
from holdfast.cost.step_functions import express, standard, together
from holdfast.cost.trial import Path as Way
from holdfast.cost.trial import try_out
from holdfast.testing import run_virtual
from holdfast.workflows.launch import Launch, launch
from holdfast.workflows.record import partition_of

LEAST_MS = 1
"""Tasks are mocked and waits are virtual, so a child may take no time; AWS bills 100 ms at least."""


class ChildRun(Struct, frozen=True):
    """One child execution of a distributed Map. ``express_ms`` is how long an express one has taken."""

    walked: Walked
    express_ms: int | None = None

    @property
    def theirs(self) -> Bill:
        """What Step Functions bills for it."""
        if self.express_ms is None:
            return standard(self.walked.entered, retries=self.walked.retries)
        return express(milliseconds=max(self.express_ms, LEAST_MS))


class Compared(Struct, frozen=True):
    """One execution, its children, what it has used, and what a million of it costs here and on Step Functions."""

    ended: Ended
    children: list[ChildRun]
    used: Used
    ours: Bill
    theirs: Bill


class _Begun(Struct, frozen=True):
    """The part of a child execution's input that says what it is."""

    child: Child


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
    """Run a machine with mocks, and print what a million executions cost: on Step Functions, and here on AWS.

    Step Functions bills each transition of a standard workflow, retries too, and those of the children of distributed
    Maps; of express children a request each, and 64 MB for the time that they wait. Here the requests of the store and
    of the queue are metered as AWS bills them, once processes run: what a process reads once, such as a large
    definition, is not counted. What tasks cost themselves is on neither side.
    """
    del debug  # the root of the command line looks at it
    found = compared(given, input_, mock)
    echo(_cost_json(found) if as_json else "\n".join(_cost_lines(found)))


def compared(given: Given, input_: str, mock: str) -> Compared:
    """Run the machine of a definition twice in virtual time, and meter the second one. ``input_`` and ``mock`` are JSON
    text.

    Raises ``InvalidInput`` for an invalid definition, and for a task without a mock.
    """
    tried = trial(given, mock)
    machine = tried.machine
    arguments = json.dumps([compact(json_value(input_)), machine.machine.text])
    input = machine.workflow.signature.parse(arguments, given.file.name)
    found: list[tuple[Ended, list[ChildRun]]] = []
    used: Used = run_virtual(lambda: _metered(tried, input, found))
    last, children = found[-1]
    theirs = together(standard(last.entered, retries=last.retries), [each.theirs for each in children])
    return Compared(last, children, used, bill_of(f"Holdfast: {given.file.name}", used), theirs)


async def _metered(tried: Trial, input: bytes, found: list[tuple[Ended, list[ChildRun]]]) -> Used:
    """The usage of one execution by processes that have worked before."""
    app, machine = tried.app, tried.machine
    async with AsyncExitStack() as processes:
        clients: list[App] = []

        async def one(number: int, deployment: Deployment) -> None:
            if not clients:
                client = App("client", home=deployment.open_client, clock=app.clock)
                clients.append(await processes.enter_async_context(client))
            tried.begin_again()
            order = Launch(id=f"trial-{number}", input=input)
            await launch(clients[0].runtime().home, None, machine.workflow, order, app.clock)
            with uncounted():
                found.append((await ended(app, machine, order.id), await _children(tried, order.id)))

        return await try_out(app, one, runs=1, path=Way.FUNCTIONS, warm_up=1)


async def _children(tried: Trial, id: str) -> list[ChildRun]:
    app, workflow = tried.app, items_of(tried.machine.name)
    found: list[ChildRun] = []
    after: str | None = None
    while True:
        page = await app.executions(workflow, root=tried.machine.handle(id), after=after)
        for each in page.executions:
            recorded, events = await events_of(app.runtime(), partition_of(workflow, each.id))
            record = recorded.record
            is_express = msgspec.json.decode(bytes(record.input), type=_Begun).child.express
            took_ms = (record.ended_at or record.created_at) - record.created_at
            found.append(ChildRun(Walked(events), took_ms if is_express else None))
        after = page.cursor
        if after is None:
            return found


def _cost_lines(found: Compared) -> list[str]:
    ended, ours, theirs = found.ended, found.ours, found.theirs
    rows = [
        [each.what, f"{float(each.count):.4g}", dollars(each.usd * 1_000_000)]
        for bill in (theirs, ours)
        for each in bill.lines
        if each.count
    ]
    ratio = theirs.usd / ours.usd if ours.usd else None
    children = f", {len(found.children)} child executions" if found.children else ""
    retries = "retry" if ended.retries == 1 else "retries"
    return [
        f"{ended.status}: {ended.entered} states entered, {ended.retries} {retries}{children}",
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
            "children": len(found.children),
            "step_functions": told(found.theirs),
            "holdfast": told(found.ours),
        }
    )
