"""``holdfast asl show``: where an execution of a state machine stands, in its events or in a picture of the machine."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any

import click
import msgspec
from msgspec import Struct

from holdfast.app import App
from holdfast.asl.definition import Machine, parse
from holdfast.asl.drawing import diagram_of, svg
from holdfast.asl.events import Event
from holdfast.asl.reading import events_of
from holdfast.cli.asl import asl
from holdfast.cli.asl.trial import event_rows
from holdfast.cli.declaring import on_execution
from holdfast.cli.output import table
from holdfast.cli.session import Session, on_home
from holdfast.errors import UnknownName
from holdfast.workflows.record import partition_of

ENTERED = "StateEntered"
EXITED = "StateExited"


class Begun(Struct, frozen=True):
    """The part of an execution's input that says which machine it runs."""

    definition: str


@asl.add_command
@on_execution(
    "show",
    "holdfast asl show -a shop:app checkout order-17",
    "holdfast asl show -a shop:app checkout order-17 --svg > order-17.svg",
)
@click.option("--svg", "as_svg", is_flag=True, help="Print a picture of the machine, with the states it is in marked.")
@on_home
def show(session: Session, *, workflow: str, id: str, as_svg: bool) -> None:
    """Print the events of an execution of a state machine, and the states that it is in.

    The definition is the one that the execution began with. Needs the app's code, which is replayed here up to what has
    been recorded. No worker has to run. A state in which an execution has failed is still one that it is in.
    """
    app = session.app()
    if workflow not in app.registry.machines:
        there = ", ".join(sorted(app.registry.machines)) or "none"
        raise UnknownName(f"no state machine is called {workflow!r} here; there are: {there}")

    async def read(opened: App) -> tuple[Machine, list[Event]]:
        found, events = await events_of(opened.runtime(), partition_of(workflow, id))
        begun = msgspec.json.decode(found.record.input, type=Begun)
        return parse(begun.definition), events

    machine, events = session.run(read, app)
    states = standing(events)
    if as_svg:
        click.echo(svg(diagram_of(machine.processor), marked=states), nl=False)
        return
    lines = table(["after", "event", ""], event_rows(events))
    session.answer(_as_data(events, states), "\n".join([*lines, f"is in: {', '.join(states) or 'no state'}"]))


def standing(events: Iterable[Event]) -> list[str]:
    """The states that have been entered and not left, in the order in which they were entered."""
    entered: Counter[str] = Counter()
    for event in events:
        name = str(event.details.get("name"))
        if event.type.endswith(ENTERED):
            entered[name] += 1
        elif event.type.endswith(EXITED):
            entered[name] -= 1
    return [name for name, count in entered.items() if count > 0]


def _as_data(events: Iterable[Event], states: list[str]) -> dict[str, Any]:
    return {
        "states": states,
        "events": [
            {"id": each.id, "before": each.before, "at": each.at, "type": each.type, **each.details} for each in events
        ],
    }
