"""The route of the protocol: one path, and the action in a header."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

import msgspec
from msgspec.structs import replace

from holdfast.asl.arns import Account
from holdfast.asl.catalogue import Catalogue, DeclaredInCode
from holdfast.codec import faults as complaints
from holdfast.codec import jsontext
from holdfast.coordination.audit import audited
from holdfast.http.messages import Response, json_response
from holdfast.http.pages import cursors_of
from holdfast.http.problems import Problem
from holdfast.http.states import reading
from holdfast.http.states.actions import ACTIONS, Action
from holdfast.http.states.asked import Listing
from holdfast.http.states.faults import AMZ_JSON, Fault, conflict
from holdfast.http.states.service import Service

if TYPE_CHECKING:
    from holdfast.commands.right import Right
    from holdfast.http.api import Call, Served
    from holdfast.http.messages import Request

TARGET_PREFIX: Final = "AWSStepFunctions."
REGION_VARIABLES: Final = ("AWS_REGION", "AWS_DEFAULT_REGION")

INVALID: Final = "ValidationException"
"""What SDKs know any other request as that is refused, one that is too large too. Its status is 400."""

UNREADABLE: Final = "SerializationException"
"""What SDKs know a body as that is no JSON, or whose fields have other types."""

CODES: Final[Mapping[int, str]] = {
    401: "UnrecognizedClientException",
    403: "AccessDeniedException",
    429: "ThrottlingException",
    503: "ServiceUnavailable",
}
"""What SDKs know problems of the server as. Those that they repeat by themselves have the names that they repeat."""


def right_of(_app: Served, _names: Mapping[str, str], request: Request) -> Right:
    """The right that an action needs. Raises ``Fault`` for one that is not known."""
    return _action(request)[1].right


def waits_for(request: Request) -> bool:
    """Whether the answer to a request waits for work."""
    name = "".join(request.header_values("x-amz-target")).removeprefix(TARGET_PREFIX)
    return name in ACTIONS and ACTIONS[name].waits


async def answer(call: Call) -> Response:
    """Perform the action that a request names."""
    name, action = _action(call.request)
    here = account()
    request = _read(call.request.body, action)
    cursors = (await cursors_of(call)).of(_listing(name, request))
    service = Service(call, here, Catalogue(call.app, here), cursors)
    if not action.audited:
        return json_response(200, await action.perform(service, request), kind=AMZ_JSON)
    runtime = call.app.runtime()
    try:
        async with audited(runtime.home.store, runtime.clock, call.caller_name, name, _subject(request)):
            return json_response(200, await action.perform(service, request), kind=AMZ_JSON)
    except DeclaredInCode as error:
        raise conflict(str(error)) from None


def refused(problem: Problem) -> Response:
    """A problem in the words of the protocol."""
    if isinstance(problem, Fault):
        return problem.told()
    code = CODES.get(problem.status, INVALID if problem.status < 500 else "InternalFailure")
    fault = Fault(code, problem.detail, 400 if code == INVALID else problem.status)
    return fault.told(*problem.headers)


def account() -> Account:
    """What ARNs begin with here: the region is that of the environment, the account none of AWS's."""
    region = next((os.environ[name] for name in REGION_VARIABLES if os.environ.get(name)), None)
    return Account() if region is None else Account(region=region)


def _action(request: Request) -> tuple[str, Action]:
    target = "".join(request.header_values("x-amz-target"))
    name = target.removeprefix(TARGET_PREFIX)
    action = ACTIONS.get(name)
    if action is None or not target.startswith(TARGET_PREFIX):
        raise Fault("UnknownOperationException", f"there is no action {target[:100]!r} here")
    return name, action


def _read(body: bytes, action: Action) -> Any:
    if jsontext.nests_too_deep(body):
        raise Fault(UNREADABLE, "the request nests too deep")
    try:
        return reading.read(body.strip() or b"{}", action.asked)
    except (msgspec.MsgspecError, ValueError) as error:
        complaint = complaints.complaint_of(error)
        raise Fault(UNREADABLE, f"{complaint.path.removeprefix('.') or 'the request'}: {complaint.text}") from None


def _listing(name: str, request: Any) -> str:
    """What a listing lists: a ``nextToken`` is good for the same question, whose pages may have another size."""
    if not isinstance(request, Listing):
        return name
    return name + msgspec.json.encode(replace(request, next_token=None, max_results=0)).decode()


def _subject(request: Any) -> str:
    """What a request is about, for the audit: the ARN or the name in its first field."""
    return str(next(iter(msgspec.structs.asdict(request).values())))[:200]
