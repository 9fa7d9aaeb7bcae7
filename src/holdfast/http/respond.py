"""The core: one request in, one response out. It depends on no server, gateway or framework."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from typing import Final

from msgspec.structs import replace

from holdfast.commands.right import Right
from holdfast.containment import contained
from holdfast.errors import HoldfastError
from holdfast.http.api import Call, ClientGone, ClientWait, Options, Served
from holdfast.http.authentication import Caller, Signed, admitted, check_right
from holdfast.http.limits import check_body, check_size
from holdfast.http.local import LocalCallers
from holdfast.http.messages import Request, Response
from holdfast.http.problems import Problem, fault, problem_of
from holdfast.http.routes import Found, find
from holdfast.http.tenants import check_tenant
from holdfast.texts import frames_of
from holdfast.tracing import within

CLIENT_GONE: Final = 499
"""The status for telemetry when no client is left to read it."""

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

    ``app`` must be open. With ``read_body`` the request comes without its body, which is read only once the caller has
    been admitted: the caller is identified by the head. By ``patience`` a server says that the client has left, or that
    it stops itself; waits end then, and writes go on.

    Emits ``http_answered`` with the route, the status, the caller and the target of the request. Tokens and payloads
    are in no log and no event.
    """
    chosen = options or Options()
    found: Found | None = None
    caller = ""
    try:
        check_size(request, chosen.limits)
        found = find(request.method, request.path, chosen)
        route = found.route
        head = replace(request, body=b"")
        right = route.right_in(app, found.names, head)
        who = None
        if right is not None:
            who = await contained(admitted(head, chosen.authenticate or LocalCallers(app)))
        known = who.caller if isinstance(who, Signed) else who
        if known is not None and right is not None and not isinstance(who, Signed):
            caller = _check(known, right, found)
        call = Call(app, head, found.names, chosen, patience or ClientWait(), known)
        if route.verify is not None:
            await route.verify(call)
        if route.reads_body:
            body = request.body if read_body is None else await read_body()
            check_body(body, chosen.limits)
            call.request = replace(request, body=body)
        if isinstance(who, Signed) and right is not None:
            who.verify(call.request, app.runtime().clock.now_ms())
            caller = _check(who.caller, right, found)
        if route.admit is not None:
            route.admit(call)
        with within("".join(request.header_values("traceparent"))):  # of several there is none: they are no context
            response = await route.handle(call)
    except ClientGone:
        response = Response(CLIENT_GONE)
    except Exception as error:  # noqa: BLE001 - the caller gets a response to any error
        problem = _problem(error, found)
        worded = found or _meant(request, chosen)
        response = problem.response() if worded is None else worded.route.refused(problem)
    named = "none" if found is None else str(found.route)
    # The paths of callbacks hold tokens, and their callers have no names.
    target = "" if found is None or not caller else " ".join(found.names.values())
    app.telemetry.emit("http_answered", route=named, status=response.status, caller=caller, target=target)
    return response if request.method != "HEAD" else Response(response.status, response.headers)


def _meant(request: Request, options: Options) -> Found | None:
    """The route of a request that was refused before it had one: it says in which words."""
    try:
        return find(request.method, request.path, options)
    except Problem:
        return None


def _check(caller: Caller, right: Right, found: Found) -> str:
    """Raise ``Problem`` unless the caller may do this here. Returns its name."""
    check_right(caller, right)
    check_tenant(caller, found.names)
    return caller.name


def _problem(error: Exception, found: Found | None) -> Problem:
    """The problem that a caller is told of an error. An error that is not the caller's fault is logged."""
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
