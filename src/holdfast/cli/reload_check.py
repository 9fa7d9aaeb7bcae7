"""Which open executions the code of an app would block: replayed here, in a process of its own, and nothing is written.

``python -m holdfast.cli.reload_check MODULE:APP [HOME]`` warns on standard error. ``holdfast run --reload`` starts it.
"""

from __future__ import annotations

import asyncio
import sys
from typing import Final

import click

from holdfast.app import App
from holdfast.cli.output import echo, plain
from holdfast.cli.session import Session, check_home_is_there
from holdfast.client import Selection, list_executions
from holdfast.errors import HoldfastError, NotFound
from holdfast.workflows.history import Recorded, load
from holdfast.workflows.record import OPEN, partition_of
from holdfast.workflows.replay import looked_into

MOST_CHECKED: Final = 100


async def check(app: App) -> list[str]:
    """Why which open executions would be blocked, of the newest ones."""
    return [told for each in await _open(app) if (told := _refusal(app, each))]


async def _open(app: App) -> list[Recorded]:
    async with app:
        runtime = app.runtime()
        page = await list_executions(runtime, Selection(among=OPEN), after=None, limit=MOST_CHECKED)
        found: list[Recorded] = []
        for status in page.executions:
            if status.workflow in app.registry.workflows:
                try:
                    found.append(await load(runtime.home.store, partition_of(status.workflow, status.id)))
                except NotFound:
                    continue
        return found


def _refusal(app: App, recorded: Recorded) -> str:
    record = recorded.record
    workflow = app.registry.workflow(record.workflow)
    with looked_into(recorded, recorded.entries, workflow, app.registry.errors.rebuild) as activation:
        activation.begin()
        broken = activation.broken
    return "" if broken is None else f"{record.workflow} {record.id}: {broken}"


def main(name: str, home: str | None = None) -> None:
    """Warn of each, or say nothing: a worker tells why the code does not import."""
    try:
        app = Session(app_name=name, home=home).app()
        check_home_is_there(app.home_url)
        blocked = asyncio.run(check(app))
    except (HoldfastError, click.ClickException):
        return
    for told in blocked:
        echo(f"holdfast: warning: the new code would block {plain(told)}", err=True)


if __name__ == "__main__":
    main(*sys.argv[1:3])
