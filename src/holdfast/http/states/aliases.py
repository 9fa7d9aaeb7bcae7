"""Aliases of a machine: names that lead to one version or to two, by weight."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from msgspec.structs import replace

from holdfast.asl.arns import STATE_MACHINE, Arn
from holdfast.asl.stored.records import Alias, Route, StoredMachine
from holdfast.errors import NotFound
from holdfast.http.states import asked
from holdfast.http.states.faults import conflict, invalid_arn, invalid_request, no_machine, no_resource
from holdfast.http.states.names import checked_alias, machine_arn
from holdfast.http.states.service import Answer, Service, seconds

Change = Callable[[StoredMachine], StoredMachine]

MOST_ROUTES: Final = 2
WHOLE: Final = 100


async def create(service: Service, request: asked.CreateAlias) -> Answer:
    """Name one version or two. The same alias again is no error."""
    name = checked_alias(request.name)
    machine_name, routes = _routes(request.routing_configuration)
    now = service.now_ms()
    alias = Alias(routes=routes, description=request.description or "", created_at=now, updated_at=now)

    def change(old: StoredMachine) -> StoredMachine:
        _check_there(old, routes, service)
        there = old.aliases.get(name)
        if there is None:
            return replace(old, aliases={**old.aliases, name: alias})
        if (there.routes, there.description) != (alias.routes, alias.description):
            raise conflict(
                "Failed to create alias because an alias with the same name and a different routing configuration "
                "already exists."
            )
        return old

    text = request.routing_configuration[0].state_machine_version_arn
    machine = await _changed(service, machine_arn(text), change, no_machine(text))
    arn = service.account.arn(STATE_MACHINE, machine_name, name)
    return {"stateMachineAliasArn": arn, "creationDate": seconds(machine.aliases[name].created_at)}


async def update(service: Service, request: asked.UpdateAlias) -> Answer:
    """Let an alias lead elsewhere, or describe it in other words."""
    arn = _alias_arn(request.state_machine_alias_arn)
    if request.routing_configuration is None and request.description is None:
        raise invalid_request("Either the description or the routing configuration must be specified")
    routes = None
    if request.routing_configuration is not None:
        machine_name, routes = _routes(request.routing_configuration)
        if machine_name != arn.name:
            raise invalid_request("Routing configuration must contain versions of the same state machine as the alias.")
    now = service.now_ms()

    def change(old: StoredMachine) -> StoredMachine:
        alias = old.aliases.get(arn.qualifier)
        if alias is None:
            raise no_resource(arn.text)
        if routes is not None:
            _check_there(old, routes, service)
            alias = replace(alias, routes=routes)
        if request.description is not None:
            alias = replace(alias, description=request.description)
        return replace(old, aliases={**old.aliases, arn.qualifier: replace(alias, updated_at=now)})

    await _changed(service, arn, change, no_resource(arn.text))
    return {"updateDate": seconds(now)}


async def delete(service: Service, request: asked.OfAlias) -> Answer:
    """Forget an alias."""
    arn = _alias_arn(request.state_machine_alias_arn)

    def change(old: StoredMachine) -> StoredMachine:
        if arn.qualifier not in old.aliases:
            raise no_resource(arn.text)
        return replace(old, aliases={name: each for name, each in old.aliases.items() if name != arn.qualifier})

    await _changed(service, arn, change, no_resource(arn.text))
    return {}


async def describe(service: Service, request: asked.OfAlias) -> Answer:
    """An alias, and where it leads."""
    arn = _alias_arn(request.state_machine_alias_arn)
    machine = await service.shelf.machine(arn.name)
    alias = None if machine is None else machine.aliases.get(arn.qualifier)
    if alias is None:
        raise no_resource(arn.text)
    told = {
        "stateMachineAliasArn": arn.text,
        "name": arn.qualifier,
        "routingConfiguration": [
            {
                "stateMachineVersionArn": service.account.arn(STATE_MACHINE, arn.name, str(each.version)),
                "weight": each.weight,
            }
            for each in alias.routes
        ],
        "creationDate": seconds(alias.created_at),
        "updateDate": seconds(alias.updated_at),
    }
    return told | {"description": alias.description} if alias.description else told


async def list_aliases(service: Service, request: asked.ListOfMachine) -> Answer:
    """The aliases of a machine, or of those that lead to a version of it."""
    arn = machine_arn(request.state_machine_arn)
    machine = await service.shelf.machine(arn.name)
    if machine is None:
        raise no_machine(arn.text)
    number = int(arn.qualifier) if arn.qualifier.isdecimal() else None
    told = [
        {
            "stateMachineAliasArn": service.account.arn(STATE_MACHINE, arn.name, name),
            "creationDate": seconds(alias.created_at),
        }
        for name, alias in sorted(machine.aliases.items())
        if number is None or any(each.version == number for each in alias.routes)
    ]
    return service.sliced("stateMachineAliases", told, request)


def _routes(given: Sequence[asked.RoutedTo]) -> tuple[str, tuple[Route, ...]]:
    if not 1 <= len(given) <= MOST_ROUTES:
        raise invalid_request("Routing configuration must contain one or two versions")
    arns = [machine_arn(each.state_machine_version_arn) for each in given]
    for arn in arns:
        if not arn.qualifier.isdecimal():
            raise invalid_request("Routing configuration must contain state machine version ARNs.")
    if len({arn.name for arn in arns}) > 1:
        raise invalid_request("Routing configuration must contain versions of the same state machine.")
    if len({arn.qualifier for arn in arns}) < len(arns):
        raise invalid_request("Routing configuration must contain distinct state machine version ARNs.")
    if sum(each.weight for each in given) != WHOLE or any(not 0 <= each.weight <= WHOLE for each in given):
        raise invalid_request(f"Sum of routing configuration weights must equal {WHOLE}.")
    return arns[0].name, tuple(Route(int(arn.qualifier), each.weight) for arn, each in zip(arns, given, strict=True))


def _check_there(machine: StoredMachine, routes: Sequence[Route], service: Service) -> None:
    for each in routes:
        if machine.version(str(each.version)) is None:
            raise no_resource(service.account.arn(STATE_MACHINE, machine.name, str(each.version)))


def _alias_arn(text: str) -> Arn:
    arn = machine_arn(text)
    if not arn.qualifier or arn.qualifier.isdecimal():
        raise invalid_arn(text)
    return arn


async def _changed(service: Service, arn: Arn, change: Change, absent: Exception) -> StoredMachine:
    try:
        return await service.shelf.change_machine(arn.name, change)
    except NotFound:
        raise absent from None
