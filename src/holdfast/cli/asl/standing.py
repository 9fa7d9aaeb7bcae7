"""``holdfast asl show``: where an execution of a state machine stands, in its events or in a picture of the machine."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import click

from holdfast.asl.drawing import picture_of, standing
from holdfast.asl.events import Event
from holdfast.asl.reading import events_of
from holdfast.cli.asl import asl
from holdfast.cli.asl.trial import event_rows
from holdfast.cli.declaring import on_execution
from holdfast.cli.output import table
from holdfast.cli.session import Session, on_home
from holdfast.errors import UnknownName
from holdfast.workflows.record import partition_of


@asl.add_command
@on_execution(
    "show",
    "holdfast asl show -a shop:app checkout order-17",
    "holdfast asl show -a shop:app checkout order-17 --svg > order-17.svg",
)
@click.option(
    "--svg", "as_svg", is_flag=True, help="Print a picture of the machine that marks what has become of its states."
)
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

    partition = partition_of(workflow, id)
    if as_svg:
        click.echo(session.run(lambda opened: picture_of(opened.runtime(), partition), app), nl=False)
        return
    _, events = session.run(lambda opened: events_of(opened.runtime(), partition), app)
    states = standing(events)
    lines = table(["after", "event", ""], event_rows(events))
    session.answer(_as_data(events, states), "\n".join([*lines, f"is in: {', '.join(states) or 'no state'}"]))


def _as_data(events: Iterable[Event], states: list[str]) -> dict[str, Any]:
    return {
        "states": states,
        "events": [
            {"id": each.id, "before": each.before, "at": each.at, "type": each.type, **each.details} for each in events
        ],
    }
