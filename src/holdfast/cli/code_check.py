"""The check that ``holdfast run --reload`` makes of code: it imports, and blocks no open execution.

    python -c "from holdfast.cli.code_check import main; main()" MODULE:APP [HOME]

It is a process of its own: the supervisor never imports the user's code, and no worker waits for the replays. It
answers two lines of JSON, ``Imported`` and, if the import went well, ``Rehearsed``. What the user's code prints goes to
standard error. It ends when its standard input does: then its supervisor is gone.
"""

from __future__ import annotations

import asyncio
import os
import sys
import threading
import traceback
from collections.abc import Iterable
from pathlib import Path
from types import ModuleType
from typing import Any, Final, TextIO

import click
import msgspec
from msgspec import Struct

import holdfast
from holdfast.app import App
from holdfast.cli.loading import load_app
from holdfast.cli.session import check_home_is_there
from holdfast.client import Selection, list_executions
from holdfast.errors import ConfigurationError, HoldfastError, InvalidInput, NotFound, StoreError, StoreUnusable
from holdfast.registrations import Registrations
from holdfast.workflows.history import Recorded, load
from holdfast.workflows.record import OPEN, partition_of, pinned_to
from holdfast.workflows.replay import looked_into

MOST_EXECUTIONS: Final = 200
"""How many open executions are replayed, the newest first."""

INSTALLED: Final = ("site-packages", "dist-packages")
OURS: Final = Path(holdfast.__file__).parent


class Imported(Struct, frozen=True):
    """The files that the app consists of, why it does not import if it does not, and its home."""

    files: tuple[str, ...]
    error: str = ""
    home: str = ""


class Unfit(Struct, frozen=True):
    """An open execution that the code would block, and why."""

    workflow: str
    id: str
    reason: str


class Rehearsed(Struct, frozen=True):
    """How many open executions were replayed, whether there are more, and which would be blocked.

    ``error`` says why the home could not be read.
    """

    replayed: int = 0
    more: bool = False
    unfit: tuple[Unfit, ...] = ()
    error: str = ""


def imported(name: str, home: str | None) -> tuple[Imported, App | None]:
    """Import the app called ``name``; an error is part of the answer, with the files that it came by."""
    try:
        app = load_app(name)
        app.home_url = home or app.home_url
    except BaseException as error:  # noqa: BLE001 - SystemExit and KeyboardInterrupt of the user's module, too
        told = error.format_message() if isinstance(error, click.ClickException) else _told(error)
        return Imported(_below_project([*_files_of(sys.modules.values()), *_passed(error)]), told), None
    if app.is_empty:
        told = f"nothing is declared on {name}: no workflow, actor, consumer or schedule"
        return Imported(_below_project(_files_of(sys.modules.values())), told), None
    return Imported(_below_project(_files_of(sys.modules.values())), home=app.home_url), app


def _told(error: BaseException) -> str:
    return str(error) if isinstance(error, HoldfastError) else f"{type(error).__name__}: {error}"


def _files_of(modules: Iterable[ModuleType | None]) -> list[str]:
    files = (getattr(module, "__file__", None) for module in list(modules))
    return [file for file in files if isinstance(file, str)]


def _passed(error: BaseException | None) -> list[str]:
    """The files of modules that are in no list of modules, because their import failed."""
    files: list[str] = []
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        files += [frame.filename for frame in traceback.extract_tb(error.__traceback__)]
        if isinstance(error, SyntaxError) and error.filename is not None:
            files.append(error.filename)
        error = error.__cause__ or error.__context__
    return files


def _below_project(files: Iterable[str]) -> tuple[str, ...]:
    """Those of the user's own that lie below the current folder, where the app is found; symbolic links as they are."""
    here = Path.cwd()
    found = {path for path in map(Path, files) if path.is_absolute() and _is_own(path, here)}
    return tuple(sorted(map(str, found)))


def _is_own(path: Path, here: Path) -> bool:
    if OURS in path.parents or any(part in INSTALLED for part in path.parts):
        return False
    return here in path.parents or here in path.resolve().parents


async def rehearse(app: App) -> Rehearsed:
    """Replay open executions with this code, up to ``MOST_EXECUTIONS``. Nothing is written, and no step runs."""
    try:
        check_home_is_there(app.home_url)
    except ConfigurationError:
        return Rehearsed()  # there is nothing yet that the code could block
    try:
        async with app:
            return await _replayed(app)
    except (StoreError, ConfigurationError, InvalidInput, OSError) as error:
        return Rehearsed(error=str(error))


async def _replayed(app: App) -> Rehearsed:
    runtime = app.runtime()
    page = await list_executions(runtime, Selection(among=OPEN), after=None, limit=MOST_EXECUTIONS)
    unfit: list[Unfit] = []
    for each in page.executions:
        try:
            recorded = await load(runtime.home.store, partition_of(each.workflow, each.id))
        except (NotFound, StoreUnusable):
            continue  # it was deleted meanwhile, or is damaged, which is no fault of the code
        if reason := why_unfit(app.registry, recorded):
            unfit.append(Unfit(each.workflow, each.id, reason))
    return Rehearsed(len(page.executions), page.cursor is not None, tuple(unfit))


def why_unfit(registry: Registrations, recorded: Recorded) -> str:
    """Why this code would block an execution; empty if it goes on."""
    record = recorded.record
    workflow = registry.workflows.get(record.workflow)
    if workflow is None:
        return f"no workflow is called {record.workflow!r} any more"
    if workflow.is_pinned and not workflow.is_version(wanted := pinned_to(record)):
        return f"it is pinned to version {wanted}, and this code is {workflow.version}"
    with looked_into(recorded, recorded.entries, workflow, registry.errors.rebuild) as activation:
        activation.begin()
        return "" if activation.broken is None else str(activation.broken)


def _end_with_supervisor() -> None:
    sys.stdin.buffer.read()
    os._exit(1)


def _answer(to: TextIO, answer: Any) -> None:
    to.write(msgspec.json.encode(answer).decode() + "\n")
    to.flush()


def main() -> None:
    """See the module."""
    threading.Thread(target=_end_with_supervisor, daemon=True).start()
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "w", encoding="utf-8")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    name, *home = sys.argv[1:]
    found, app = imported(name, home[0] if home else None)
    _answer(answers, found)
    if app is not None:
        _answer(answers, asyncio.run(rehearse(app)))
    os._exit(0)  # threads of the user's code may go on
