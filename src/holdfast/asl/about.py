"""What an execution of a machine is told of itself, and what is told of it to others."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Struct

from holdfast.asl.arns import EXECUTION, EXPRESS, STATE_MACHINE, Account
from holdfast.asl.orders import Child
from holdfast.asl.timestamps import iso_milliseconds

if TYPE_CHECKING:
    from holdfast.workflows.record import ExecutionRecord


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
            "StartTime": iso_milliseconds(started_ms),
        }
        if not self.express:
            execution["RedriveCount"] = 0
        return {"Execution": execution, "StateMachine": {"Id": self.machine_arn, "Name": self.machine}}


class Given(Struct, frozen=True):
    """The input of the workflow, as its record holds it."""

    input: str
    definition: str
    about: About


class Begun(Struct, frozen=True):
    """The part of the input that every execution of a machine has: its own input as JSON text, and the definition."""

    input: str
    definition: str


def given_to_child(record: ExecutionRecord, account: Account) -> tuple[Given, Child]:
    """What a child execution of a Map run was started with. Its machine is named as AWS does: ``machine/label``."""
    begun = msgspec.json.decode(bytes(record.input), type=BegunChild)
    child = begun.child
    machine = f"{child.owner.machine}/{child.owner.label}"
    about = About(account=account, machine=machine, name=child.name, role_arn=child.owner.role_arn)
    return Given(child.part.input, begun.processor, about), child


def begun_with(input: bytes) -> Begun:
    """What the input of a workflow says that runs machines, of whichever machine."""
    return msgspec.json.decode(input, type=Begun)


class BegunChild(Struct, frozen=True):
    """The input of the workflow of child executions: the child, and the definition of its machine."""

    child: Child
    processor: str


def declared_role(account: Account, machine: str) -> str:
    """The role of a machine that the app declares. It is a name only."""
    return f"arn:aws:iam::{account.account}:role/{machine}"


def declared_about(account: Account, machine: str, id: str, express_since_ms: int | None = None) -> About:
    """What is told of an execution of a machine that the app declares: all of it follows from the id.

    Express ones, which have a time since which they run, may share a name: what tells them apart is in the id, after
    the name; in one that was started in Python it is the time.
    """
    name, express = id, ""
    if express_since_ms is not None:
        name, _, unique = id.partition(":")
        express = unique or str(express_since_ms)
    role = declared_role(account, machine)
    return About(account=account, machine=machine, name=name, role_arn=role, express=express)


def given_to_declared(record: ExecutionRecord, account: Account, *, is_express: bool) -> Given:
    """What an execution of a machine that the app declares was started with."""
    begun = begun_with(bytes(record.input))
    since = record.created_at if is_express else None
    return Given(begun.input, begun.definition, declared_about(account, record.workflow, record.id, since))


def given_to(input: bytes) -> Given:
    """What an execution of a machine that a request created was started with."""
    return msgspec.json.decode(input, type=Given)
