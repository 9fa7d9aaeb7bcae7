"""DescribeExecution, DescribeStateMachineForExecution, ListExecutions, StopExecution, RedriveExecution."""

from __future__ import annotations

from typing import Final

import msgspec

from holdfast import ids
from holdfast.asl.arns import EXPRESS, Arn
from holdfast.asl.ending import Stop
from holdfast.asl.errors import LONGEST_CAUSE_CHARACTERS, LONGEST_ERROR_CHARACTERS, cut
from holdfast.asl.reading import redrives_of, requests_of
from holdfast.errors import InvalidState
from holdfast.http.states import asked, map_runs
from holdfast.http.states.faults import Fault, invalid_arn, invalid_request
from holdfast.http.states.machines import NO_LOGGING, NO_TRACING, found
from holdfast.http.states.names import execution_arn, machine_arn
from holdfast.http.states.service import ALL_DATA, Answer, Service, limit_of, seconds
from holdfast.http.states.standing import (
    REDRIVABLE,
    Standing,
    of_head,
    standing_of,
)
from holdfast.registrations import SERVED
from holdfast.workflows.messages import send
from holdfast.workflows.record import CancelRequest, is_there, partition_of
from holdfast.workflows.retry_execution import retry
from holdfast.workflows.wait_for_end import ended

STOP_SECONDS: Final = 5.0
"""How long StopExecution waits for the end. An execution that no process works on ends when one does."""


TOKENS_KEPT: Final = 10
TOKEN_LASTS_MS: Final = 15 * 60_000
"""How long, and how many, client tokens are known (API Reference, "RedriveExecution", ``clientToken``)."""

REDRIVEN: Final = {"REDRIVEN": True, "NOT_REDRIVEN": False}


async def describe(service: Service, request: asked.OfExecution) -> Answer:
    """An execution, with its input and its output or its error."""
    arn = _standard(request.execution_arn)
    standing = await standing_of(service, arn)
    told = standing.described(request.included_data)
    store = service.call.app.runtime().home.store
    told["redriveCount"], at_ms = await redrives_of(store, standing.head.partition, standing.record)
    if at_ms:
        told["redriveDate"] = seconds(at_ms)
    if standing.status in REDRIVABLE and standing.child is not None:
        told["redriveStatus"] = "REDRIVABLE_BY_MAP_RUN"
    elif standing.status in REDRIVABLE:
        told["redriveStatus"] = "REDRIVABLE"
    else:
        told["redriveStatus"] = "NOT_REDRIVABLE"
        told["redriveStatusReason"] = f"Execution is {standing.status} and cannot be redriven"
    return told


async def describe_machine(service: Service, request: asked.OfExecution) -> Answer:
    """The machine as the execution began with it."""
    standing = await standing_of(service, _standard(request.execution_arn))
    about = standing.about
    told: Answer = {
        "stateMachineArn": about.machine_arn,
        "name": about.machine,
        "roleArn": about.role_arn,
        "updateDate": seconds(standing.record.created_at),
        "loggingConfiguration": NO_LOGGING,
        "tracingConfiguration": NO_TRACING,
    }
    if request.included_data == ALL_DATA:
        told["definition"] = await service.shelf.text(standing.given.definition)
    if about.revision:
        told["revisionId"] = about.revision
    return told


async def list_all(service: Service, request: asked.ListExecutions) -> Answer:
    """The executions of a machine, of one of its versions or of an alias, the newest first where the home knows."""
    if request.map_run_arn is not None:
        return await map_runs.children(service, request, request.map_run_arn)
    if request.state_machine_arn is None:
        raise invalid_request("Must specify a state machine ARN or map run ARN")
    arn = machine_arn(request.state_machine_arn)
    machine = await found(service, arn)
    if machine.type == "EXPRESS":
        raise Fault("StateMachineTypeNotSupported", "This operation is not supported by this type of state machine")
    await service.check_list()
    limit, after = limit_of(request), service.after(request)
    told: list[Answer] = []
    store = service.call.app.runtime().home.store
    declared = service.shelf.declared(machine.name) is not None
    beginning = partition_of(machine.name, "") if declared else partition_of(SERVED, f"{machine.name}:")
    while len(told) < limit:
        page = await store.scan(beginning, after=after, limit=limit - len(told))
        now = service.now_ms()
        stands = [of_head(service, head) for head in page.items if is_there(head, now)]
        told += [each.summary() for each in stands if _is_meant(each, arn, request)]
        after = page.cursor
        if after is None:
            break
    return service.page("executions", told, after)


def _is_meant(standing: Standing, arn: Arn, request: asked.ListExecutions) -> bool:
    about = standing.about
    if request.status_filter not in (None, standing.status):
        return False
    if request.redrive_filter is not None and REDRIVEN[request.redrive_filter] != standing.is_redriven:
        return False
    if not arn.qualifier:
        return True
    return arn.qualifier in ((about.version,) if arn.qualifier.isdecimal() else (about.alias,))


async def stop(service: Service, request: asked.StopExecution) -> Answer:
    """End an execution. One that has ended already stays as it is."""
    arn = _standard(request.execution_arn)
    if len(request.error or "") > LONGEST_ERROR_CHARACTERS or len(request.cause or "") > LONGEST_CAUSE_CHARACTERS:
        raise invalid_request("the error has at most 256 characters, and the cause 32,768")
    standing = await standing_of(service, arn)
    runtime, partition = service.call.app.runtime(), standing.head.partition
    if standing.record.ended_at is None:
        # Cut here: a reason that is cut where it is recorded could not be read any more.
        cause = None if request.cause is None else cut(request.cause)
        reason = msgspec.json.encode(Stop(request.error, cause)).decode()
        request_to_stop = CancelRequest(reason, ids.new_id())
        await send(partition, request_to_stop, runtime.home, runtime.host, runtime.sender, service.now_ms())
        try:
            await service.call.within(STOP_SECONDS, ended(runtime, partition))
        except TimeoutError:
            return {"stopDate": seconds(service.now_ms())}  # it is asked to, and ends when a process works on it
    standing = await standing_of(service, arn)
    return {"stopDate": seconds(standing.record.ended_at or service.now_ms())}


async def redrive(service: Service, request: asked.RedriveExecution) -> Answer:
    """Go on with an execution that ended badly, from where it failed; what was done stays done (G2)."""
    arn = _standard(request.execution_arn)
    standing = await standing_of(service, arn)
    if (earlier := await _same_redrive(service, standing, request.client_token)) is not None:
        return earlier
    if standing.status not in REDRIVABLE or standing.child is not None:
        raise _not_redrivable(standing)
    try:
        at = await retry(service.call.app.runtime(), standing.head.partition, request.client_token)
    except InvalidState as error:
        again = await standing_of(service, arn)
        if (earlier := await _same_redrive(service, again, request.client_token)) is not None:
            return earlier
        raise _not_redrivable(again, str(error)) from None
    return {"redriveDate": seconds(at)}


async def _same_redrive(service: Service, standing: Standing, token: str) -> Answer | None:
    """The answer to the request with this client token, if it was made before."""
    store, since = service.call.app.runtime().home.store, service.now_ms() - TOKEN_LASTS_MS
    redrives = await requests_of(store, standing.head.partition, standing.record)
    same = [at_ms for request, at_ms in redrives[-TOKENS_KEPT:] if token and request == token and at_ms >= since]
    return {"redriveDate": seconds(same[-1])} if same else None


def _not_redrivable(standing: Standing, why: str = "") -> Fault:
    told = why or f"Execution is {standing.status} and cannot be redriven"
    return Fault("ExecutionNotRedrivable", f"Execution Not Redrivable: '{told}'")


def _standard(text: str) -> Arn:
    """The ARN of a standard execution: of express ones AWS keeps nothing that could be asked for."""
    arn = execution_arn(text)
    if arn.kind == EXPRESS:
        raise invalid_arn(text)
    return arn
