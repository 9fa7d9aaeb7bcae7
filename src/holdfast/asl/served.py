"""Machines that are created by a request: one workflow runs all of them, each execution with its own definition.

The definition is a part of the execution's input, so an execution goes on with the one it began with, whatever becomes
of the machine, and wherever it goes on. What a Task can call is what the app has mapped, and nothing else (G12).
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

import msgspec
from msgspec import Struct

from holdfast.asl.arns import EXECUTION, EXPRESS, STATE_MACHINE, Account
from holdfast.asl.definition import Machine, definition_json, parse
from holdfast.asl.errors import Error
from holdfast.asl.frames import Bounds, Cursor
from holdfast.asl.machine import Continue, Program, first_cursor, run_machine
from holdfast.asl.timestamps import iso_milliseconds
from holdfast.bounded import Bounded
from holdfast.registrations import SERVED
from holdfast.workflows.definition import Workflow
from holdfast.workflows.launch import launch
from holdfast.workflows.operations.new_run import continue_as_new
from holdfast.workflows.options import StartOptions
from holdfast.workflows.scope import activation_for

if TYPE_CHECKING:
    from holdfast.asl.frames import Work
    from holdfast.asl.quotas import Compat
    from holdfast.items import Item
    from holdfast.kernel.runtime import Declares, Runtime

INTERPRETER: Final = "asl-1"
EXPRESS_SECONDS: Final = 300
"""How long an express execution may take (Step Functions Developer Guide, "Quotas")."""

KEPT_MACHINES: Final = 200
"""How many parsed definitions a process keeps."""


class About(Struct, frozen=True, omit_defaults=True, kw_only=True):
    """What an execution is told of itself in its context object, and what is told of it by the API."""

    account: Account
    machine: str
    name: str
    role_arn: str
    express: str = ""
    """What tells executions of one name apart: express ones may share it. Empty for a standard one."""
    version: str = ""
    alias: str = ""
    revision: str = ""

    @property
    def id(self) -> str:
        """The id of the execution as a workflow."""
        return ":".join((self.machine, self.name, *((self.express,) if self.express else ())))

    @property
    def arn(self) -> str:
        """The ARN of the execution."""
        if self.express:
            return self.account.arn(EXPRESS, self.machine, self.name, self.express)
        return self.account.arn(EXECUTION, self.machine, self.name)

    @property
    def machine_arn(self) -> str:
        """The ARN of the machine."""
        return self.account.arn(STATE_MACHINE, self.machine)

    def identity(self, input: Any, started_ms: int) -> dict[str, Any]:
        """The part of the context object that is the same in every state."""
        execution = {
            "Id": self.arn,
            "Input": input,
            "Name": self.name,
            "RoleArn": self.role_arn,
            "StartTime": iso_milliseconds(datetime.fromtimestamp(started_ms / 1000, UTC)),
        }
        if not self.express:
            execution["RedriveCount"] = 0
        return {"Execution": execution, "StateMachine": {"Id": self.machine_arn, "Name": self.machine}}


class Given(Struct, frozen=True):
    """The input of the workflow, as its record holds it."""

    input: str
    definition: str
    about: About


class ServedMachines:
    """The workflow that runs the machines which requests have created."""

    def __init__(self, app: Declares, work: Work, *, compat: Compat) -> None:
        self._work = work
        self._compat: Compat = compat
        self.bounds = Bounds()
        self._machines: Bounded[str, Machine] = Bounded(KEPT_MACHINES)
        app.registry.add_errors((Error,))
        self.workflow: Workflow[..., Any] = Workflow(self._body(), app.runtime, name=SERVED, version=INTERPRETER)
        app.registry.add_workflow(self.workflow)
        app.registry.machines[SERVED] = self

    def _body(self) -> Any:
        async def state_machine(input: str, definition: str, about: About, cursor: Cursor | None = None) -> Any:
            return await self._run(input, definition, about, cursor)

        return state_machine

    async def _run(self, input: str, definition: str, about: About, cursor: Cursor | None) -> Any:
        activation = activation_for("a state machine")
        machine = self.machine(definition)
        program = Program(machine, self._work, self._compat, self.bounds)
        cursor = cursor or first_cursor(machine, input, activation.now_ms)
        identity = about.identity(msgspec.json.decode(input), cursor.started_ms)
        try:
            return await run_machine(program, activation, identity, cursor)
        except Continue as going_on:
            continue_as_new(input, definition, about, going_on.cursor)

    def machine(self, definition: str) -> Machine:
        """The machine of a definition that is known to be one."""
        found = self._machines.use(definition)
        if found is None:
            found = self._machines[definition] = parse(definition_json(definition))
        return found

    async def start(self, runtime: Runtime, about: About, definition: str, input: str) -> Item:
        """Start an execution, or find the one that was started with just this (G1, G11). Answers its head.

        Raises ``IdempotencyMismatch`` if its id belongs to another input.
        """
        limit = self.machine(definition).timeout_seconds
        if about.express:
            limit = min(limit or EXPRESS_SECONDS, EXPRESS_SECONDS)
        options = StartOptions(id=about.id, timeout_ms=None if limit is None else limit * 1000)
        data = self.workflow.signature.bind((input, definition, about), {}, "a state machine", runtime.limit_bytes)
        order = options.order(data, runtime.clock.now_ms(), new_id=about.id, tags={})
        return await launch(runtime.home, runtime.host, self.workflow, order, runtime.clock)


def given_to(input: bytes) -> Given:
    """What an execution of such a machine was started with."""
    return msgspec.json.decode(input, type=Given)


def served_by(app: Declares) -> ServedMachines | None:
    """What runs the machines that requests create; ``None`` if the app takes none."""
    found: Mapping[str, Any] = app.registry.machines
    return found.get(SERVED)
