"""``holdfast debug``: a recorded execution under pdb, here, without any effect."""

from __future__ import annotations

import linecache
from collections.abc import Iterator
from types import FrameType
from typing import Any, Final

import click

from holdfast.app import App
from holdfast.cli.debugger import debug_at
from holdfast.cli.declaring import on_execution
from holdfast.cli.output import plain
from holdfast.cli.session import Session, check_home_is_there, on_home
from holdfast.cli.stops import Stop, replay_to
from holdfast.errors import InvalidState
from holdfast.texts import told_place
from holdfast.workflows.history import Recorded, load
from holdfast.workflows.record import partition_of

SEALED: Final = "(not shown: values are sealed here)"
LONGEST_VALUE_CHARACTERS: Final = 400


@on_execution(
    "debug",
    "holdfast debug -a shop:app checkout order-17",
    "holdfast debug -a shop:app checkout order-17 --before charge#1",
    "holdfast debug -a shop:app checkout order-17 --no-pdb --json",
)
@click.option("--before", metavar="OPERATION", help="Stop before the body asks for this operation, as show names it.")
@click.option("--no-pdb", is_flag=True, help="Print the stack and the variables, and do not ask.")
@on_home
def debug(session: Session, *, workflow: str, id: str, before: str | None, no_pdb: bool) -> None:
    """Replay a recorded execution here under pdb, up to where its body stands.

    What is recorded is read, and the home is closed, before your code runs: nothing can be written, and no step runs.
    The body itself runs, with its prints and its breakpoint() calls. If the code does not fit what is recorded, that is
    said, and the exit status is 1.
    """
    if session.json and not no_pdb:
        raise click.UsageError("--json needs --no-pdb: pdb talks to people.")
    app = session.app()
    check_home_is_there(app.home_url)
    recorded, sealed = session.run(lambda app: _read(app, partition_of(workflow, id)), app)
    stops: list[dict[str, Any]] = []

    def look(stop: Stop) -> None:
        if not no_pdb:
            debug_at(stop)
        elif not stops:
            stops.append(_as_data(stop, sealed=sealed))

    wrong = replay_to(app.registry, recorded, before, look)
    if stops:
        session.answer({"workflow": workflow, "id": id, "unfit": wrong, **stops[0]}, "\n".join(_as_lines(stops[0])))
    if wrong is not None:
        raise InvalidState(wrong)


async def _read(app: App, partition: str) -> tuple[Recorded, bool]:
    home = app.runtime().home
    return await load(home.store, partition), home.sealed


def _as_data(stop: Stop, *, sealed: bool) -> dict[str, Any]:
    branches = [
        {"name": branch.name, "frames": [_frame(each, sealed=sealed) for each in branch.frames]}
        for branch in stop.branches
    ]
    return {"stopped": stop.told, "branches": branches}


def _frame(frame: FrameType, *, sealed: bool) -> dict[str, Any]:
    code = frame.f_code
    return {
        "function": code.co_qualname,
        "place": told_place(code.co_filename, frame.f_lineno),
        "line": linecache.getline(code.co_filename, frame.f_lineno).strip(),
        "variables": {name: SEALED if sealed else _shown(value) for name, value in frame.f_locals.items()},
    }


def _shown(value: object) -> str:
    """A value as logs would have it: on one line, without tokens, and cut after they are masked. A secret prints itself
    as ``***``.
    """
    try:
        told = plain(repr(value))
    except Exception as error:  # noqa: BLE001 - a __repr__ of the user's
        return f"({type(value).__name__}, whose repr failed: {type(error).__name__})"
    return told if len(told) <= LONGEST_VALUE_CHARACTERS else f"{told[:LONGEST_VALUE_CHARACTERS]}…"


def _as_lines(data: dict[str, Any]) -> Iterator[str]:
    yield plain(data["stopped"])
    for branch in data["branches"]:
        if branch["name"]:
            yield f"branch {plain(branch['name'])}"
        for frame in branch["frames"]:
            yield f"  {plain(frame['place'])} in {plain(frame['function'])}: {plain(frame['line'])}"
            yield from (f"    {plain(name)} = {value}" for name, value in frame["variables"].items())
