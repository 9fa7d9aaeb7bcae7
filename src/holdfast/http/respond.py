"""The core: one request in, one response out. It knows no server, no gateway and no framework."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from typing import Final

from msgspec.structs import replace

from holdfast.codec.collisions import MOST_ALIKE, numbers_collide
from holdfast.codec.jsontext import holds_more_values
from holdfast.containment import contained
from holdfast.coordination.audit import audited
from holdfast.errors import HoldfastError
from holdfast.http.api import Call, ClientGone, ClientWait, HttpLimits, Options, Served
from holdfast.http.authentication import Caller, caller_of, check_right
from holdfast.http.exchange import announced_bytes
from holdfast.http.local import LocalCallers
from holdfast.http.messages import Request, Response
from holdfast.http.problems import Problem, fault, problem_of
from holdfast.http.routes import Found, Route, find
from holdfast.http.tenants import check_tenant
from holdfast.texts import frames_of

CLIENT_GONE: Final = 499
"""The status that nobody hears, for telemetry."""

_logger = logging.getLogger("holdfast")


async def respond(
    app: Served,
    request: Request,
    options: Options | None = None,
    *,
    patience: ClientWait | None = None,
    read_body: Callable[[], Awaitable[bytes]] | None = None,
) -> Response:
    """The response to a request. Never raises an error.

    ``app`` is open. With ``read_body`` the request has come without its body, which is read by it once the caller has
    been let in, and not at all otherwise; callers are known by what a request has besides its body. Through
    ``patience`` a server tells that the client has left, or that it wants to stop: what waits then gives up; what
    writes goes on.

    Telemetry hears ``http_answered`` with the route, the status, the caller and what the request was about; tokens and
    payloads are in no log and no event.
    """
    chosen = options or Options()
    found: Found | None = None
    caller = ""
    try:
        check_size(request, chosen.limits)
        found = find(request.method, request.path)
        route = found.route
        head = replace(request, body=b"")
        known: Caller | None = None
        right = route.right_in(app, found.names)
        if right is not None:
            known = await contained(caller_of(head, chosen.authenticate or LocalCallers(app)))
            caller = known.name
            check_right(known, right)
            check_tenant(known, found.names)
        call = Call(app, head, found.names, chosen.limits, patience or ClientWait(), known)
        if route.verify is not None:
            await route.verify(call)
        if route.reads_body:
            body = request.body if read_body is None else await read_body()
            check_body(body, chosen.limits)
            call.request = replace(request, body=body)
        if route.admit is not None:
            route.admit(call)
        response = await _handled(call, route, known)
    except ClientGone:
        response = Response(CLIENT_GONE)
    except Exception as error:  # noqa: BLE001 - whatever it is, the caller gets a response
        response = _problem(error, found).response()
    named = "none" if found is None else str(found.route)
    # The paths of callbacks hold their tokens, and their callers are not known.
    target = "" if found is None or not caller else " ".join(found.names.values())
    app.telemetry.emit("http_answered", route=named, status=response.status, caller=caller, target=target)
    return response if request.method != "HEAD" else Response(response.status, response.headers)


async def _handled(call: Call, route: Route, caller: Caller | None) -> Response:
    """What the route answers. What changes by control leaves a row in the audit."""
    action = route.action
    if action is None or caller is None:
        return await route.handle(call)
    runtime, what = call.app.runtime(), " ".join(call.names.values())
    async with audited(runtime.home.store, runtime.clock, caller.name, action, what):
        return await route.handle(call)


def _problem(error: Exception, found: Found | None) -> Problem:
    """What a caller is told of an error. What is no fault of his goes to the log."""
    told = "a request" if found is None else found.route
    match error:
        case Problem():
            return error
        case HoldfastError():
            problem = problem_of(error, told)
        case _:
            return fault(error, told)
    if problem.status == 500 and "error_id" not in problem.more:
        _logger.error("%s failed with %s:\n%s", told, type(error).__name__, frames_of(error))
    return problem


def check_size(request: Request, limits: HttpLimits) -> None:
    """Raise ``Problem`` if a request is larger than allowed, or is compressed."""
    if len(request.path) + len(request.query) > limits.path_bytes:
        raise Problem(414, "path_too_long", f"path and query are over {limits.path_bytes} bytes")
    size_bytes = sum(len(name) + len(value) for name, value in request.headers)
    if len(request.headers) > limits.headers or size_bytes > limits.headers_bytes:
        raise Problem(
            431, "headers_too_large", f"over {limits.headers} headers, or over {limits.headers_bytes} bytes of them"
        )
    if request.header_values("content-length") and request.header_values("transfer-encoding"):
        # Where a body ends must not be a matter of taste (RFC 9112, 6.3): a proxy may see another request behind it.
        raise Problem(400, "invalid_request", "a body has a content-length or a transfer-encoding, not both")
    check_body_size(max(len(request.body), announced_bytes(request.header_values("content-length"))), limits)
    if any(value.strip().lower() not in {"", "identity"} for value in request.header_values("content-encoding")):
        raise Problem(415, "compressed_body", "a body is sent as it is, not compressed")


def check_body(body: bytes, limits: HttpLimits) -> None:
    """Raise ``Problem`` if a body is larger than allowed, or holds more values, or numbers with the hash of another."""
    check_body_size(len(body), limits)
    if holds_more_values(body, limits.body_values):
        raise Problem(413, "payload_too_large", f"the body holds over {limits.body_values} values")
    if numbers_collide(body):
        raise Problem(
            400, "invalid_input", f"the body holds over {MOST_ALIKE} numbers that have the hash of another one"
        )


def check_body_size(size_bytes: int, limits: HttpLimits) -> None:
    """Raise ``Problem`` if a body is larger than allowed."""
    if size_bytes > limits.body_bytes:
        raise Problem(413, "payload_too_large", f"the body is over {limits.body_bytes} bytes")
