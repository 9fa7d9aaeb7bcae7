"""CreateStateMachine, UpdateStateMachine, DeleteStateMachine, DescribeStateMachine, ListStateMachines."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from typing import Any, Final
from uuid import UUID

from msgspec.structs import replace

from holdfast import ids
from holdfast.asl.arns import STATE_MACHINE, Arn
from holdfast.asl.jsontext import same
from holdfast.asl.runners import DeclaredMachine
from holdfast.asl.stored.records import EXPRESS, STANDARD, Revision, StoredMachine
from holdfast.asl.stored.texts import digest_of
from holdfast.errors import NotFound
from holdfast.http.states import asked
from holdfast.http.states.definitions import check_definition
from holdfast.http.states.faults import Fault, invalid_arn, invalid_request, no_machine
from holdfast.http.states.names import checked_name, machine_arn
from holdfast.http.states.service import ALL_DATA, Answer, Service, limit_of, seconds
from holdfast.http.states.tags import tags_of
from holdfast.http.states.versions import publish, version_answer

NO_LOGGING: Final = {"level": "OFF", "includeExecutionData": False}
NO_TRACING: Final = {"enabled": False}

DECLARED: Final = "declared:"
CREATED: Final = "created:"
"""What the cursors of lists begin with: which machines the next page begins with."""


async def create(service: Service, request: asked.CreateStateMachine) -> Answer:
    """Keep a machine. The same machine again is no error, whatever its role and tags are; another of its name is."""
    name = checked_name(request.name)
    if request.type not in (STANDARD, EXPRESS):
        raise Fault("StateMachineTypeNotSupported", f"State Machine Type is not supported: '{request.type}'")
    if request.version_description and not request.publish:
        raise invalid_request("Version description can only be set when publish is true")
    _check_logging(request.logging_configuration)
    check_definition(request.definition, request.type)
    declared = service.shelf.declared(name)
    if declared is not None:
        return _declared_so(service, declared, request)
    now = service.now_ms()
    revision = Revision(
        digest=await service.shelf.keep_definition(request.definition),
        role_arn=request.role_arn,
        logging=request.logging_configuration or {},
        tracing=request.tracing_configuration or {},
        at=now,
    )
    machine = StoredMachine(name=name, type=request.type, revision=revision, created_at=now, tags=tags_of(request.tags))
    if request.publish:
        machine = publish(machine, request.version_description or "", now)
    there = await service.shelf.add_machine(machine)
    if there is not None and not _is_same(there, machine):
        raise _exists_already(service, name)
    kept = there or machine
    told = {"stateMachineArn": _arn(service, name), "creationDate": seconds(kept.created_at)}
    if request.publish and kept.versions:
        told["stateMachineVersionArn"] = _arn(service, name, str(kept.versions[0].number))
    return told


def _declared_so(service: Service, declared: DeclaredMachine, request: asked.CreateStateMachine) -> Answer:
    """What a request to create a machine is answered that the app declares: its ARN, if it is this one."""
    if request.publish:
        service.shelf.refuse_declared(declared.name)
    given, there = json.loads(request.definition), json.loads(declared.machine.text)
    if (request.type, request.logging_configuration or NO_LOGGING) != (declared.type, NO_LOGGING) or not same(
        given, there
    ):
        raise _exists_already(service, declared.name)
    return {"stateMachineArn": _arn(service, declared.name), "creationDate": seconds(0)}


def _exists_already(service: Service, name: str) -> Fault:
    return Fault("StateMachineAlreadyExists", f"State Machine Already Exists: '{_arn(service, name)}'")


def _is_same(there: StoredMachine, machine: StoredMachine) -> bool:
    """By what AWS compares; the revision of one that was updated since is another one."""
    old, new = there.revision, machine.revision
    return (there.type, old.digest, old.logging, old.tracing, bool(there.versions)) == (
        machine.type,
        new.digest,
        new.logging,
        new.tracing,
        bool(machine.versions),
    )


def _check_logging(logging: dict[str, Any] | None) -> None:
    if not logging or logging.get("level", "OFF") == "OFF":
        return
    if len(logging.get("destinations") or ()) != 1:
        raise Fault(
            "InvalidLoggingConfiguration",
            "Invalid Logging Configuration: Must specify exactly one Log Destination.",
        )


async def update(service: Service, request: asked.UpdateStateMachine) -> Answer:
    """Change a machine. Executions that are under way keep the definition that they began with."""
    arn = machine_arn(request.state_machine_arn)
    given = (request.definition, request.role_arn, request.logging_configuration, request.tracing_configuration)
    if all(each is None for each in given):
        raise Fault(
            "MissingRequiredParameter",
            "Either the definition, the role ARN, the LoggingConfiguration, or the TracingConfiguration must be "
            "specified",
        )
    if request.version_description and not request.publish:
        raise invalid_request("Version description can only be set when publish is true")
    if arn.qualifier:
        raise no_machine(arn.text)
    service.shelf.refuse_declared(arn.name)
    machine = await found(service, arn)
    _check_logging(request.logging_configuration)
    if request.definition is not None:
        check_definition(request.definition, machine.type)
        await service.shelf.keep_definition(request.definition)
    now = service.now_ms()

    def change(old: StoredMachine) -> StoredMachine:
        new = replace(old, revision=_revised(old.revision, request, now))
        return publish(new, request.version_description or "", now) if request.publish else new

    changed = await _changed(service, arn, change)
    told = {"updateDate": seconds(now), "revisionId": changed.revision.id}
    if request.publish:
        told["stateMachineVersionArn"] = _arn(service, arn.name, str(changed.versions[0].number))
    return told


def _revised(old: Revision, request: asked.UpdateStateMachine, now: int) -> Revision:
    logging, tracing = request.logging_configuration, request.tracing_configuration
    new = replace(
        old,
        digest=old.digest if request.definition is None else digest_of(request.definition),
        role_arn=old.role_arn if request.role_arn is None else request.role_arn,
        logging=old.logging if logging is None else logging,
        tracing=old.tracing if tracing is None else tracing,
    )
    return old if new == old and old.id else replace(new, id=str(UUID(hex=ids.new_id())), at=now)


async def delete(service: Service, request: asked.OfMachine) -> Answer:
    """Forget a machine, with its versions and aliases. What is under way goes on."""
    arn = machine_arn(request.state_machine_arn)
    if arn.qualifier:
        raise invalid_arn(arn.text)
    await service.shelf.remove_machine(arn.name)
    return {}


async def describe(service: Service, request: asked.OfMachine) -> Answer:
    """A machine, or a version of it."""
    arn = machine_arn(request.state_machine_arn)
    machine = await found(service, arn)
    if not arn.qualifier:
        told = {"stateMachineArn": _arn(service, arn.name), "creationDate": seconds(machine.created_at)}
        return told | await described(service, machine, machine.revision, request.included_data)
    version = machine.version(arn.qualifier)
    if version is None:
        raise no_machine(arn.text)
    told = version_answer(_arn(service, arn.name, arn.qualifier), version)
    told["stateMachineArn"] = told.pop("stateMachineVersionArn")
    return told | await described(service, machine, version.revision, request.included_data)


async def described(service: Service, machine: StoredMachine, revision: Revision, included: str) -> Answer:
    """What is told of a machine and of one of its revisions."""
    told: Answer = {
        "name": machine.name,
        "status": "ACTIVE",
        "roleArn": revision.role_arn,
        "type": machine.type,
        "loggingConfiguration": revision.logging or NO_LOGGING,
        "tracingConfiguration": revision.tracing or NO_TRACING,
    }
    if included == ALL_DATA:
        told["definition"] = await service.shelf.definition(revision.digest)
    if revision.id:
        told["revisionId"] = revision.id
    return told


async def list_all(service: Service, request: asked.Listing) -> Answer:
    """Machines: those that the app declares, then those that requests created, each in the order of their names."""
    after, limit = service.after(request) or DECLARED, limit_of(request)
    names = service.shelf.declared_machines()
    found: list[StoredMachine] = []
    if after.startswith(DECLARED):
        found = [each for each in names if each.name > after.removeprefix(DECLARED)][:limit]
        if len(found) == limit:
            return service.page("stateMachines", _listed(service, found), DECLARED + found[-1].name)
        after = CREATED
    page = await service.shelf.machines(after.removeprefix(CREATED) or None, limit - len(found))
    hidden = {each.name for each in names}
    found += [each.value for each in page.documents if each.value.name not in hidden]
    cursor = None if page.cursor is None else CREATED + page.cursor
    return service.page("stateMachines", _listed(service, found), cursor)


def _listed(service: Service, machines: Iterable[StoredMachine]) -> list[Answer]:
    return [
        {
            "stateMachineArn": _arn(service, each.name),
            "name": each.name,
            "type": each.type,
            "creationDate": seconds(each.created_at),
        }
        for each in machines
    ]


async def found(service: Service, arn: Arn) -> StoredMachine:
    """The machine that an ARN names. Raises ``Fault``."""
    machine = await service.shelf.machine(arn.name)
    if machine is None:
        raise no_machine(arn.text)
    return machine


async def _changed(service: Service, arn: Arn, change: Callable[[StoredMachine], StoredMachine]) -> StoredMachine:
    try:
        return await service.shelf.change_machine(arn.name, change)
    except NotFound:
        raise no_machine(arn.text) from None


def _arn(service: Service, *names: str) -> str:
    return service.account.arn(STATE_MACHINE, *names)
