"""Declaring state machines on an app: ``app.state_machine(...)``."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal

import msgspec

from holdfast.asl.about import declared_about
from holdfast.asl.arns import Account
from holdfast.asl.binding import Tasks
from holdfast.asl.connections import Connection
from holdfast.asl.definition import Machine, parse
from holdfast.asl.distributed import MapRuns
from holdfast.asl.errors import Error
from holdfast.asl.frames import Bounds, Cursor
from holdfast.asl.jsontext import written
from holdfast.asl.machine import Program, first_cursor, run_machine
from holdfast.asl.maps.outcomes import failure_of
from holdfast.asl.quotas import Compat, Quota
from holdfast.asl.sources import Values, source_of
from holdfast.asl.stored.records import EXPRESS
from holdfast.asl.targets import Nested
from holdfast.asl.validation import Profile, refuse_invalid
from holdfast.asl.work import DeclaredServices
from holdfast.asl.workflow import MachineWorkflow, text_of
from holdfast.bounded import Bounded
from holdfast.errors import ConfigurationError, ExecutionError
from holdfast.kernel.runtime import Declares
from holdfast.registrations import SERVED
from holdfast.workflows.declared import WorkflowPolicy
from holdfast.workflows.operations.new_run import continue_as_new
from holdfast.workflows.scope import activation_for, current

if TYPE_CHECKING:
    from holdfast.workflows.handle import Handle

INTERPRETER: Final = "asl-1"
"""The version of the interpreter. Another one replays by the rules for changed code."""

MachineType = Literal["STANDARD", "EXPRESS"]

KEPT_MACHINES: Final = 20
"""How many earlier definitions a process keeps parsed."""


class StateMachine(Nested):
    """A state machine of an app. Start it for a handle, as a workflow; or await a call of it.

    The definition is a part of the execution's input: an execution goes on with the one that it began with, wherever
    and with whichever code it goes on.
    """

    def __init__(
        self, app: Declares, name: str, machine: Machine, tasks: Tasks, *, compat: Compat, type: MachineType
    ) -> None:
        self._app = app
        self.name = name
        self.machine = machine
        self.tasks = tasks
        self.compat: Compat = compat
        self.type: MachineType = type
        self.bounds = Bounds()
        self._machines: Bounded[str, Machine] = Bounded(KEPT_MACHINES)
        self.maps = MapRuns(app, name, INTERPRETER, self)
        timeout = machine.timeout_seconds
        self.workflow = MachineWorkflow(
            self._body(),
            app.runtime,
            name=name,
            version=INTERPRETER,
            policy=WorkflowPolicy(timeout_ms=None if timeout is None else timeout * 1000),
        )

    def _body(self) -> Any:
        async def state_machine(input: str, definition: str, cursor: Cursor | None = None) -> Any:
            return await self._run(input, definition, cursor)

        return state_machine

    async def _run(self, input: str, definition: str, cursor: Cursor | None) -> Any:
        activation = activation_for(f"state machine {self.name!r}")
        machine = self.machine_of(text_of(activation, definition))
        cursor = cursor or first_cursor(machine, input, activation.now_ms)
        since = cursor.started_ms if self.type == EXPRESS else None
        about = declared_about(Account(), self.name, current().id, since)
        identity = about.identity(msgspec.json.decode(input), cursor.started_ms)
        go_on = partial(continue_as_new, input, definition)
        return await run_machine(self.program(machine), activation, identity, cursor, go_on)

    def machine_of(self, definition: str) -> Machine:
        """The machine of a definition that an execution began with: today's, or one of before."""
        if definition == self.machine.text:
            return self.machine
        found = self._machines.use(definition)
        if found is None:
            found = self._machines[definition] = parse(definition)
        return found

    def program(self, machine: Machine) -> Program:
        """A machine that an execution began with, with today's tasks."""
        quota = Quota(self.compat, self._app.limit_bytes)
        return Program(machine, self.tasks, self.maps, quota, self.bounds)

    async def start(self, input: Any = None, **options: Any) -> Handle[Any]:
        """Start an execution. ``input`` is its JSON; ``options`` are those of the start of any workflow.

        Raises as the ``start`` of a workflow.
        """
        return await self.workflow.start(written(_or_empty(input)), self.machine.text, **options)

    async def __call__(self, input: Any = None) -> Any:
        return await self.workflow(written(_or_empty(input)), self.machine.text)

    async def nested(self, given: Any) -> Any:
        """See ``Nested``."""
        try:
            return await self.workflow(written(given), self.machine.text)
        except ExecutionError as error:
            raise failure_of(error) from error

    def handle(self, id: str) -> Handle[Any]:
        """A handle on an execution that was started earlier, here or elsewhere. Looks nothing up."""
        return self.workflow.handle(id)


def _or_empty(input: Any) -> Any:
    return {} if input is None else input


def declare(  # noqa: PLR0913 - each named by its caller
    app: Declares,
    name: str,
    definition: str | Path | Mapping[str, Any],
    *,
    tasks: Mapping[str, Any] | None = None,
    http: Mapping[str, Connection] | None = None,
    aws: bool = False,
    compat: Compat = None,
    type: MachineType | None = None,
    resource: str | None = None,
    substitutions: Values | None = None,
) -> StateMachine:
    """See ``App.state_machine``."""
    if compat not in (None, "aws"):
        raise ConfigurationError(f"compat is 'aws' or nothing, not {compat!r}")
    if name == SERVED:
        raise ConfigurationError(
            f"{name!r} is the workflow of the machines that requests create; give this one another name"
        )
    source = source_of(definition, resource, substitutions)
    type = type or ("EXPRESS" if source.type == "EXPRESS" else "STANDARD")
    refuse_invalid(source.text, name, Profile(aws=False, express=type == "EXPRESS"))
    machine = parse(source.text)
    bound = DeclaredServices(app, tasks or {}, http, aws=aws)
    bound.check(machine, name)
    app.registry.add_errors((Error,))
    declared = StateMachine(app, name, machine, bound, compat=compat, type=type)
    app.registry.add_workflow(declared.workflow)
    app.registry.machines[name] = declared
    return declared
