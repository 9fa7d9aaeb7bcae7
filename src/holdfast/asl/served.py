"""Machines that are created by a request: one workflow runs all of them, each execution with its own definition.

The definition is a part of the execution's input, so an execution goes on with the one it began with, whatever becomes
of the machine, and wherever it goes on. What a Task can call is what the app has mapped, and nothing else (G12).
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import msgspec

from holdfast.asl.about import About
from holdfast.asl.definition import Machine, parse
from holdfast.asl.distributed import MapRuns
from holdfast.asl.errors import Error
from holdfast.asl.frames import Bounds, Cursor
from holdfast.asl.machine import Program, first_cursor, run_machine
from holdfast.asl.quotas import Quota
from holdfast.asl.workflow import MachineWorkflow, text_of
from holdfast.bounded import Bounded
from holdfast.registrations import SERVED
from holdfast.workflows.operations.new_run import continue_as_new
from holdfast.workflows.scope import activation_for

if TYPE_CHECKING:
    from holdfast.asl.frames import Work
    from holdfast.asl.quotas import Compat
    from holdfast.kernel.runtime import Declares

INTERPRETER: Final = "asl-1"
KEPT_MACHINES: Final = 200
"""How many parsed definitions a process keeps."""


class ServedMachines:
    """The workflow that runs the machines which requests have created."""

    def __init__(self, app: Declares, work: Work, *, compat: Compat) -> None:
        self._app = app
        self._work = work
        self._compat: Compat = compat
        self.bounds = Bounds()
        self._machines: Bounded[str, Machine] = Bounded(KEPT_MACHINES)
        app.registry.add_errors((Error,))
        self.workflow = MachineWorkflow(self._body(), app.runtime, name=SERVED, version=INTERPRETER)
        app.registry.add_workflow(self.workflow)
        self.maps = MapRuns(app, SERVED, INTERPRETER, self)
        app.registry.machines[SERVED] = self

    def _body(self) -> Any:
        async def state_machine(input: str, definition: str, about: About, cursor: Cursor | None = None) -> Any:
            return await self._run(input, definition, about, cursor)

        return state_machine

    async def _run(self, input: str, definition: str, about: About, cursor: Cursor | None) -> Any:
        activation = activation_for("a state machine")
        machine = self.machine_of(text_of(activation, definition))
        cursor = cursor or first_cursor(machine, input, activation.now_ms)
        identity = about.identity(msgspec.json.decode(input), cursor.started_ms)
        go_on = partial(continue_as_new, input, definition, about)
        return await run_machine(self.program(machine), activation, identity, cursor, go_on)

    def program(self, machine: Machine) -> Program:
        """A machine that an execution began with, with today's tasks."""
        quota = Quota(self._compat, self._app.limit_bytes)
        return Program(machine, self._work, self.maps, quota, self.bounds)

    def machine_of(self, definition: str) -> Machine:
        """The machine of a definition that is known to be one."""
        found = self._machines.use(definition)
        if found is None:
            found = self._machines[definition] = parse(definition)
        return found


def served_by(app: Declares) -> ServedMachines | None:
    """What runs the machines that requests create; ``None`` if the app takes none."""
    found: Mapping[str, Any] = app.registry.machines
    return found.get(SERVED)
