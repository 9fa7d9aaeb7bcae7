"""What runs the executions of a machine: its own workflow if the app declares it, else the one of all created ones."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from msgspec import Struct

from holdfast.asl.about import About
from holdfast.asl.jsontext import compact, read
from holdfast.asl.quotas import EXPRESS_SECONDS
from holdfast.asl.served import ServedMachines
from holdfast.workflows.definition import Workflow
from holdfast.workflows.launch import launch
from holdfast.workflows.options import StartOptions
from holdfast.workflows.record import partition_of

if TYPE_CHECKING:
    from holdfast.asl.definition import Machine
    from holdfast.items import Item
    from holdfast.kernel.runtime import Runtime


class DeclaredMachine(Protocol):
    """A machine that the app declares, as what serves it sees it."""

    @property
    def name(self) -> str: ...

    @property
    def type(self) -> str: ...

    @property
    def machine(self) -> Machine: ...

    @property
    def workflow(self) -> Workflow[..., Any]: ...

    def machine_of(self, definition: str) -> Machine:
        """The machine of a definition that an execution began with."""
        ...


class Runner(Struct, frozen=True):
    """What runs the executions of one machine. A declared one is started by requests as it is started in Python."""

    machines: DeclaredMachine | ServedMachines

    @property
    def is_declared(self) -> bool:
        """Whether the app declares the machine."""
        return not isinstance(self.machines, ServedMachines)

    @property
    def workflow(self) -> Workflow[..., Any]:
        """The workflow that runs them."""
        return self.machines.workflow

    def id_of(self, about: About) -> str:
        """The id of an execution within the workflow."""
        return about.id.removeprefix(f"{about.machine}:") if self.is_declared else about.id

    def partition(self, about: About) -> str:
        """Where an execution is."""
        return partition_of(self.workflow.name, self.id_of(about))

    def input_text(self, text: str) -> str:
        """The input as the workflow is given it. A start in Python and one by request write the same JSON alike.

        Raises ``NotJson``.
        """
        return compact(read(text)) if self.is_declared else text

    def arguments(self, about: About, definition: str, input: str) -> tuple[Any, ...]:
        """The arguments of the workflow."""
        return (input, definition) if self.is_declared else (input, definition, about)

    def options(self, about: About, definition: str) -> StartOptions:
        """The options of a start: the id, and the time that the definition or an express machine has."""
        limit = self.machines.machine_of(definition).timeout_seconds
        if about.express:
            limit = min(limit or EXPRESS_SECONDS, EXPRESS_SECONDS)
        return StartOptions(id=self.id_of(about), timeout_ms=None if limit is None else limit * 1000)

    async def start(self, runtime: Runtime, about: About, definition: str, input: str) -> Item:
        """Start an execution, or find the one that was started with just this (G1, G11). Answers its head.

        Raises ``IdempotencyMismatch`` if its id belongs to another input.
        """
        given = self.arguments(about, definition, input)
        data = self.workflow.signature.bind(given, {}, "a state machine", runtime.limit_bytes)
        options = self.options(about, definition)
        order = options.order(data, runtime.clock.now_ms(), new_id=self.id_of(about), tags={})
        return await launch(runtime.home, runtime.host, self.workflow, order, runtime.clock)
