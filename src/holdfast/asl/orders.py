"""What a Map run is given, and what each of its child executions is told of itself. Values are JSON text, so that the
order of their fields is kept.
"""

from __future__ import annotations

import json
from typing import Any, Final

from msgspec import Struct

from holdfast import ids
from holdfast.asl.jsontext import compact
from holdfast.asl.timestamps import iso_milliseconds
from holdfast.workflows.record import DERIVED_ID_MARK

ITEMS_OF_A_RUN: Final = 1_000
"""How many child executions of a Map run are started, at least, before it continues as new."""


class Part(Struct, frozen=True, omit_defaults=True):
    """What one child execution works on: its input, and how many items that are. ``value`` is the item, where the
    input is another. An item of an object has its ``key``.
    """

    input: str
    items: int = 1
    value: str = ""
    key: str | None = None

    @staticmethod
    def of(given: Any, value: Any, key: str | None = None, items: int = 1) -> Part:
        """The part of which the child gets ``given``: the ``value`` of an item, or a batch of ``items``."""
        input = compact(given)
        told = input if value is given else compact(value)
        return Part(input, items, "" if told == input else told, key)

    def item(self, index: int) -> dict[str, Any]:
        """What the context object says of it, as ``Map.Item``."""
        told = {"Index": index, "Value": json.loads(self.value or self.input)}
        return told if self.key is None else {**told, "Key": self.key}


class Tolerance(Struct, frozen=True):
    """How many iterations may fail. Without a tolerance the first failure is too much."""

    count: int | None = None
    percentage: float | None = None

    def exceeded(self, failed: int, items: int) -> bool:
        """Whether these failures are too many: more than the count, or than the percentage of all items."""
        if self.count is None and self.percentage is None:
            return failed > 0
        if self.count is not None and failed > self.count:
            return True
        return self.percentage is not None and failed * 100 > self.percentage * items


class Writer(Struct, frozen=True):
    """A ``ResultWriter``, evaluated. Without a resource it only transforms the results. ``given`` is JSON text."""

    resource: str
    given: str
    config: dict[str, str]


class Owner(Struct, frozen=True):
    """The machine that a Map belongs to, as the context object has it, and the Map's label."""

    machine_arn: str
    machine: str
    role_arn: str
    label: str

    @staticmethod
    def of(context: Any, label: str) -> Owner:
        """The owner of a Map in an execution with this context object."""
        machine = context["StateMachine"]
        return Owner(machine["Id"], machine["Name"], context["Execution"]["RoleArn"], label)

    def arn(self, kind: str, name: str) -> str:
        """The ARN of a Map run, or of a child execution."""
        return f"{self.machine_arn.replace(':stateMachine:', f':{kind}:')}/{self.label}:{name}"


class MapOrder(Struct, frozen=True, omit_defaults=True, kw_only=True):
    """What a Map run is given. ``processor`` is the definition of its child executions."""

    owner: Owner
    processor: str
    express: bool
    parts: tuple[Part, ...]
    concurrency: int
    tolerance: Tolerance
    writer: Writer | None = None


class Child(Struct, frozen=True, omit_defaults=True):
    """What a child execution is told of itself."""

    owner: Owner
    map_run: str
    index: int
    part: Part
    express: bool = False

    @property
    def name(self) -> str:
        """Its name. No other item and no other Map run has it."""
        return child_name(self.map_run, self.index)

    @property
    def id(self) -> str:
        """Its id as a workflow."""
        return DERIVED_ID_MARK + self.name

    @property
    def arn(self) -> str:
        """Its ARN: ``…:execution:machine/label:name``."""
        return self.owner.arn("execution", self.name)

    @property
    def map_run_arn(self) -> str:
        """The ARN of its Map run."""
        return self.owner.arn("mapRun", self.map_run)

    def context(self, started_ms: int) -> dict[str, Any]:
        """The part of its context object that is the same in every state."""
        owner, started = self.owner, iso_milliseconds(started_ms)
        execution: dict[str, Any] = {
            "Id": self.arn,
            "Input": json.loads(self.part.input),
            "Name": self.name,
            "RoleArn": owner.role_arn,
            "StartTime": started,
        }
        if not self.express:
            execution["RedriveCount"] = 0
        return {
            "Execution": execution,
            "StateMachine": {"Id": owner.machine_arn, "Name": owner.machine},
            "Map": {"Item": self.part.item(self.index)},
        }


class MapCursor(Struct, frozen=True, omit_defaults=True):
    """Where a run of a Map run begins: at which part, and how many before have ended in which status of AWS."""

    next: int = 0
    executions: dict[str, int] = {}
    items: dict[str, int] = {}


def child_name(map_run: str, index: int) -> str:
    """The name of a child execution of a Map run."""
    return f"{map_run}-{index}"


def maps_of(name: str) -> str:
    """The workflow of the Map runs of a machine's executions."""
    return f"{name}.maps"


def items_of(name: str) -> str:
    """The workflow of the child executions of those Map runs."""
    return f"{name}.items"


def map_runs_of(partition: str, nonce: str) -> str:
    """How the names of all Map runs of an execution begin."""
    return ids.fingerprint(ids.derive("map runs", partition, nonce).encode())
