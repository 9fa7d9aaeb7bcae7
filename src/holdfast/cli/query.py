"""``holdfast query``: ask an execution's body, by a function that it exposes."""

from __future__ import annotations

import json

import click

from holdfast.cli.declaring import on_execution
from holdfast.cli.output import as_json
from holdfast.cli.session import Session, on_home
from holdfast.commands.execution import Query


@on_execution("query", "holdfast query -a shop:app checkout order-17 progress")
@click.argument("name")
@on_home
def query(session: Session, *, workflow: str, id: str, name: str) -> None:
    """Ask an execution by a function that its body exposes with @hf.query, and print what it returns as JSON.

    Needs the app's code, which is replayed here up to what has been recorded. No worker has to run.
    """
    value = json.loads(bytes(session.perform(Query(workflow, id, name))))
    session.answer({"workflow": workflow, "id": id, "query": name, "value": value}, as_json(value))
