"""An execution as the API tells of it: where it is in the store, its status, its output or its error."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from holdfast.asl.about import About, Given, given_to, given_to_child, given_to_declared
from holdfast.asl.arns import EXPRESS, STATE_MACHINE, Arn
from holdfast.asl.ending import ABORTED, STATUS_OF, SUCCEEDED, failure_in
from holdfast.asl.orders import Child, items_of
from holdfast.asl.stored.records import EXPRESS as MACHINE_EXPRESS
from holdfast.http.states.faults import no_execution
from holdfast.http.states.service import ALL_DATA, Answer, Service, seconds
from holdfast.registrations import SERVED
from holdfast.workflows.record import (
    CANCELLED,
    COMPENSATION_FAILED,
    COMPLETED,
    DERIVED_ID_MARK,
    FAILED,
    NO_VALUE,
    TERMINATED,
    TIMED_OUT,
    ExecutionRecord,
    decode_record,
    is_there,
    partition_of,
)

if TYPE_CHECKING:
    from holdfast.items import Item

RUNNING: Final = "RUNNING"

HOLDFAST_STATUSES: Final = {
    SUCCEEDED: (COMPLETED,),
    "FAILED": (FAILED, COMPENSATION_FAILED),
    ABORTED: (CANCELLED, TERMINATED),
    "TIMED_OUT": (TIMED_OUT,),
}

REDRIVABLE: Final = ("FAILED", ABORTED, "TIMED_OUT")


class Standing(Struct, frozen=True):
    """One execution: its head, its record and what it was started with."""

    head: Item
    record: ExecutionRecord
    given: Given
    child: Child | None = None
    """What it is told of its Map run, if it is of one."""

    @property
    def about(self) -> About:
        """What it is told of itself."""
        return self.given.about

    @property
    def status(self) -> str:
        """Its status in AWS's words."""
        return STATUS_OF.get(self.head.status, RUNNING)

    @property
    def is_redriven(self) -> bool:
        """Whether it ended badly and was made to go on."""
        return self.record.timed_from != 0

    @property
    def failure(self) -> tuple[str | None, str | None]:
        """Its error and cause, where it has any."""
        return failure_in(self.status, self.record)

    @property
    def output(self) -> str | None:
        """Its output as JSON text."""
        return None if self.record.result == NO_VALUE else bytes(self.record.result).decode()

    def summary(self) -> Answer:
        """What lists tell of it."""
        about = self.about
        told: Answer = {
            "executionArn": about.arn,
            "stateMachineArn": about.machine_arn,
            "name": about.name,
            "status": self.status,
            "startDate": seconds(self.record.created_at),
        }
        if self.record.ended_at is not None:
            told["stopDate"] = seconds(self.record.ended_at)
        if self.child is not None:
            told |= {"mapRunArn": self.child.map_run_arn, "itemCount": self.child.part.items}
        if about.version:
            told["stateMachineVersionArn"] = about.account.arn(STATE_MACHINE, about.machine, about.version)
        if about.alias:
            told["stateMachineAliasArn"] = about.account.arn(STATE_MACHINE, about.machine, about.alias)
        return told

    def described(self, included: str) -> Answer:
        """All that is told of it but its redrives."""
        told = self.summary()
        told.pop("itemCount", None)  # which lists alone tell
        error, cause = self.failure
        told |= {name: value for name, value in (("error", error), ("cause", cause)) if value is not None}
        if included != ALL_DATA:
            return told
        told |= {"input": self.given.input, "inputDetails": {"included": True}}
        if self.output is not None:
            told |= {"output": self.output, "outputDetails": {"included": True}}
        return told


async def standing_of(service: Service, arn: Arn) -> Standing:
    """The execution that an ARN names. Raises ``Fault``."""
    store, now = service.call.app.runtime().home.store, service.now_ms()
    for partition in _places(service, arn):
        head = await store.get(partition)
        if is_there(head, now):
            return of_head(service, head)
    raise no_execution(arn.text)


def _places(service: Service, arn: Arn) -> Iterator[str]:
    """Where the execution of an ARN may be. A machine that is declared may have been created before by a request."""
    if "/" in arn.name:
        yield from (partition_of(items_of(each), DERIVED_ID_MARK + arn.last) for each in workflows_of(service, arn))
        return
    if service.shelf.declared(arn.name) is not None:
        yield partition_of(arn.name, ":".join(arn.names[1:]))
    if arn.kind == EXPRESS or ":" not in arn.last:
        yield partition_of(SERVED, ":".join(arn.names))


def workflows_of(service: Service, arn: Arn) -> Iterator[str]:
    """The workflows that may run what is named by an ARN with ``machine/label``."""
    machine = arn.name.partition("/")[0]
    if service.shelf.declared(machine) is not None:
        yield machine
    yield SERVED


def of_head(service: Service, head: Item) -> Standing:
    """The execution of a head."""
    record = decode_record(head.body)
    declared = service.shelf.declared(record.workflow)
    if declared is None and record.workflow != SERVED:
        given, child = given_to_child(record, service.account)
        return Standing(head, record, given, child)
    if declared is None:
        return Standing(head, record, given_to(bytes(record.input)))
    is_express = declared.type == MACHINE_EXPRESS
    return Standing(head, record, given_to_declared(record, service.account, is_express=is_express))
