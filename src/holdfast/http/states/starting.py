"""StartExecution and StartSyncExecution, by AWS's rules for names that are used again."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING, Final
from uuid import UUID

from holdfast import ids
from holdfast.asl.about import About
from holdfast.asl.arns import Arn
from holdfast.asl.jsontext import NotJson, read
from holdfast.asl.quotas import EXPRESS_SECONDS
from holdfast.asl.runners import Runner
from holdfast.asl.stored.records import EXPRESS, Alias, Revision, StoredMachine
from holdfast.errors import ConfigurationError, IdempotencyMismatch, PayloadTooLarge
from holdfast.http.states import asked
from holdfast.http.states.faults import Fault, no_machine
from holdfast.http.states.machines import found
from holdfast.http.states.names import checked_name, machine_arn
from holdfast.http.states.service import Answer, Service, seconds
from holdfast.http.states.standing import RUNNING, Standing, of_head
from holdfast.registrations import SERVED
from holdfast.workflows.record import is_there, partition_of
from holdfast.workflows.wait_for_end import ended

if TYPE_CHECKING:
    from holdfast.items import Item

LARGEST_INPUT_BYTES: Final = 262_144

PATIENCE_SECONDS: Final = EXPRESS_SECONDS + 5.0
BILLED_MB: Final = 64
"""What AWS bills at least: memory in steps of 64 MB, and time in steps of 100 ms."""


async def start(service: Service, request: asked.StartExecution) -> Answer:
    """Start an execution. Raises ``Fault`` for a name that has, or had, another one."""
    standing = await _started(service, request)
    return {"executionArn": standing.about.arn, "startDate": seconds(standing.record.created_at)}


async def start_sync(service: Service, request: asked.StartExecution) -> Answer:
    """Start an express execution, and answer once it has ended."""
    arn = machine_arn(request.state_machine_arn)
    machine = await found(service, arn)
    if machine.type != EXPRESS:
        raise Fault("StateMachineTypeNotSupported", "This operation is not supported by this type of state machine")
    standing = await _started(service, request)
    runtime = service.call.app.runtime()
    try:
        await service.call.within(PATIENCE_SECONDS, ended(runtime, standing.head.partition))
    except TimeoutError:
        raise Fault("ServiceUnavailable", "the execution goes on, and the server stops waiting for it", 503) from None
    head = await runtime.home.store.get(standing.head.partition)
    assert head is not None  # it has just ended
    told = of_head(service, head).described(request.included_data)
    took_ms = (of_head(service, head).record.ended_at or 0) - standing.record.created_at
    billed = {"billedMemoryUsedInMB": BILLED_MB, "billedDurationInMilliseconds": -(-took_ms // 100) * 100}
    return told | {"billingDetails": billed}


async def _started(service: Service, request: asked.StartExecution) -> Standing:
    arn = machine_arn(request.state_machine_arn)
    machine = await found(service, arn)
    revision, version, alias = _chosen(machine, arn)
    _check_input(request.input)
    express = ids.new_id() if machine.type == EXPRESS else ""
    about = About(
        account=service.account,
        machine=machine.name,
        name=checked_name(request.name) if request.name else str(UUID(hex=ids.new_id())),
        role_arn=revision.role_arn,
        express=str(UUID(hex=express)) if express else "",
        version=version,
        alias=alias,
        revision=revision.id,
    )
    runner = runner_of(service, machine.name)
    input = runner.input_text(request.input)
    definition = await service.shelf.definition(revision.digest)
    runtime = service.call.app.runtime()
    if runner.is_declared and (earlier := await _created_earlier(service, about)) is not None:
        return _same(service, earlier, about, request.input)
    try:
        head = await runner.start(runtime, about, definition, input)
    except IdempotencyMismatch:
        return _same(service, await runtime.home.store.get(runner.partition(about)), about, input)
    except PayloadTooLarge as error:
        raise Fault("InvalidExecutionInput", f"Invalid State Machine Execution Input: '{error}'") from None
    return _same(service, head, about, input)  # one that was created just now has not ended


async def _created_earlier(service: Service, about: About) -> Item | None:
    """The execution of this name that the machine had while it was one that requests create: it is not repeated."""
    head = await service.call.app.runtime().home.store.get(partition_of(SERVED, about.id))
    return head if is_there(head, service.now_ms()) else None


def _same(service: Service, there: Item | None, about: About, input: str) -> Standing:
    """The execution of this name, if it runs and has this input."""
    standing = None if there is None else of_head(service, there)
    if standing is None or standing.status != RUNNING or standing.given.input != input:
        raise Fault("ExecutionAlreadyExists", f"Execution Already Exists: '{about.arn}'")
    return standing


def _chosen(machine: StoredMachine, arn: Arn) -> tuple[Revision, str, str]:
    """The revision to run, and the version and the alias that led to it."""
    if not arn.qualifier:
        return machine.revision, "", ""
    alias = machine.aliases.get(arn.qualifier)
    number = arn.qualifier if alias is None else str(_drawn(alias))
    version = machine.version(number)
    if version is None:
        raise no_machine(arn.text)
    return version.revision, number, "" if alias is None else arn.qualifier


def _drawn(alias: Alias) -> int:
    weights = [each.weight for each in alias.routes]
    return Random(ids.new_seed()).choices([each.version for each in alias.routes], weights)[0]


def _check_input(input: str) -> None:
    if len(input.encode()) > LARGEST_INPUT_BYTES:
        raise Fault(
            "InvalidExecutionInput",
            f"Invalid State Machine Execution Input: 'input is over {LARGEST_INPUT_BYTES} bytes'",
        )
    try:
        read(input)
    except NotJson as error:
        raise Fault("InvalidExecutionInput", f"Invalid State Machine Execution Input: '{error}'") from None


def runner_of(service: Service, machine: str) -> Runner:
    """What runs a machine here. Raises ``ConfigurationError`` if the app declares nothing for it."""
    runner = service.shelf.runner(machine)
    if runner is None:
        raise ConfigurationError(
            "the app runs no machines that requests create: declare with app.state_machines(...) what they may call"
        )
    return runner
