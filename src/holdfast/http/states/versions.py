"""Versions of a machine: PublishStateMachineVersion, DeleteStateMachineVersion, ListStateMachineVersions."""

from __future__ import annotations

from msgspec.structs import replace

from holdfast.asl.arns import STATE_MACHINE
from holdfast.asl.stored.records import StoredMachine, Version
from holdfast.errors import NotFound
from holdfast.http.states import asked
from holdfast.http.states.faults import conflict, invalid_arn, no_machine
from holdfast.http.states.names import machine_arn
from holdfast.http.states.service import Answer, Service, seconds


def publish(machine: StoredMachine, description: str, now: int) -> StoredMachine:
    """The machine with its present revision as its newest version; as it is, if that is one already."""
    if machine.versions and machine.versions[0].revision == machine.revision:
        return machine
    number = machine.published + 1
    version = Version(number=number, revision=machine.revision, description=description, at=now)
    return replace(machine, versions=(version, *machine.versions), published=number)


def version_answer(arn: str, version: Version) -> Answer:
    """What every action tells of a version."""
    told = {"stateMachineVersionArn": arn, "creationDate": seconds(version.at)}
    return told | {"description": version.description} if version.description else told


async def publish_version(service: Service, request: asked.PublishVersion) -> Answer:
    """Publish the present revision. It is no error to publish it again: that answers its version."""
    arn = machine_arn(request.state_machine_arn)
    now = service.now_ms()
    if arn.qualifier:
        raise invalid_arn(arn.text)

    def change(old: StoredMachine) -> StoredMachine:
        if request.revision_id is not None and request.revision_id != old.revision.id:
            raise conflict(
                f"Failed to publish the State Machine version for revision {request.revision_id}. The current State "
                f"Machine revision is {old.revision.id or 'INITIAL'}."
            )
        return publish(old, request.description or "", now)

    try:
        machine = await service.shelf.change_machine(arn.name, change)
    except NotFound:
        raise no_machine(arn.text) from None
    version = machine.versions[0]
    told = version_answer(service.account.arn(STATE_MACHINE, arn.name, str(version.number)), version)
    told.pop("description", None)
    return told


async def delete_version(service: Service, request: asked.OfVersion) -> Answer:
    """Forget a version to which no alias leads. What runs it goes on."""
    arn = machine_arn(request.state_machine_version_arn)
    if not arn.qualifier.isdecimal():
        raise invalid_arn(arn.text)
    number = int(arn.qualifier)

    def change(old: StoredMachine) -> StoredMachine:
        leading = sorted(
            name for name, alias in old.aliases.items() if any(each.version == number for each in alias.routes)
        )
        if leading:
            raise conflict(
                "Version to be deleted must not be referenced by an alias. Current list of aliases referencing this "
                f"version: [{', '.join(leading)}]"
            )
        return replace(old, versions=tuple(each for each in old.versions if each.number != number))

    try:
        await service.shelf.change_machine(arn.name, change)
    except NotFound:
        return {}  # what is not there is deleted
    return {}


async def list_versions(service: Service, request: asked.ListOfMachine) -> Answer:
    """The versions of a machine, the newest first."""
    arn = machine_arn(request.state_machine_arn)
    machine = await service.shelf.machine(arn.name)
    if machine is None:
        raise no_machine(arn.text)
    told = [
        {
            "stateMachineVersionArn": service.account.arn(STATE_MACHINE, arn.name, str(each.number)),
            "creationDate": seconds(each.at),
        }
        for each in machine.versions
    ]
    return service.sliced("stateMachineVersions", told, request)
