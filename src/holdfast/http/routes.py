"""The routes: what each path does, and which right it needs."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final
from urllib.parse import unquote

from msgspec import Struct
from msgspec.structs import replace

from holdfast.commands import NAMED, Command
from holdfast.commands.actor import Call as CallMethod
from holdfast.commands.actor import (
    DeleteActor,
    Discard,
    ListActors,
    Park,
    RequestStatus,
    ResumeActor,
    Send,
    ShowActor,
    Unpark,
)
from holdfast.commands.callback import AnswerCallback, Complete, Fail, Heartbeat
from holdfast.commands.execution import (
    Cancel,
    Delete,
    Fork,
    ListExecutions,
    Move,
    Pause,
    Query,
    ReadHistory,
    Resume,
    Retry,
    RetryNow,
    Show,
    Signal,
    Start,
    Status,
    Terminate,
)
from holdfast.commands.limit import ChangeLimit, ListLimits, ResetLimit, ShowLimit
from holdfast.commands.message import DropParked, ListParked, Publish, Redrive, ShowParked
from holdfast.commands.overview import Overview
from holdfast.commands.queue import ChangeQueue, ListQueues, PauseQueue, PurgeQueue, ResetQueue, ResumeQueue, ShowQueue
from holdfast.commands.right import Right
from holdfast.commands.system import ListAudit, ListLeases, ListOutbox, ListSchedules, ListWorkers
from holdfast.http import (
    actors,
    call_limits,
    callbacks,
    events,
    executions,
    metrics,
    queues,
    repairs,
    showing,
    states,
    system,
)
from holdfast.http.api import Call, Handler, Options, Served
from holdfast.http.messages import Request, Response, json_response
from holdfast.http.problems import Problem

Verify = Callable[[Call], Awaitable[None]]


class Route(Struct, frozen=True, kw_only=True):
    """One method of one path, and the command that it performs.

    ``right`` is what the caller needs, unless ``ask`` decides by the request. ``None`` means that the route is open to
    all callers, or to those whose path ``verify`` accepts. ``admit`` may refuse a caller once the body is read.
    ``waits`` means that the answer always waits for work; ``waits_for`` decides by the request. ``is_served`` says
    whether it is there at all, by the options of the API; ``refused`` is how its callers are told of a problem.
    """

    method: str
    path: str
    command: type[Command[Any]] | None
    right: Right | None
    handle: Handler
    verify: Verify | None = None
    ask: Callable[[Served, Mapping[str, str], Request], Right] | None = None
    admit: Callable[[Call], None] | None = None
    waits: bool = False
    waits_for: Callable[[Request], bool] | None = None
    is_served: Callable[[Options], bool] | None = None
    refused: Callable[[Problem], Response] = Problem.response

    @property
    def action(self) -> str | None:
        """The command's name in the audit; ``None`` if it is not recorded there."""
        named = None if self.command is None else NAMED[self.command]
        return named.name if named is not None and named.audited else None

    @property
    def reads_body(self) -> bool:
        """Whether the body is read. A route that is open to all callers takes none."""
        return self.right is not None or self.verify is not None

    def right_in(self, app: Served, names: Mapping[str, str], request: Request) -> Right | None:
        """The right that the caller needs, given the names in the path and the head of the request."""
        return self.right if self.ask is None else self.ask(app, names, request)

    @property
    def parts(self) -> tuple[str, ...]:
        """The path, part by part."""
        return tuple(self.path.split("/")[1:])

    def __str__(self) -> str:
        return f"{self.method} {self.path}"


async def health(call: Call) -> Response:
    """The process serves. The store is not asked: that may cost money, and any client may send this request."""
    call.query()
    call.app.runtime()
    return json_response(200, {"status": "ok"})


def _route(method: str, path: str, command: type[Command[Any]], handle: Handler) -> Route:
    """A route that performs a command; its right is the command's."""
    return Route(method=method, path=path, command=command, right=NAMED[command].right, handle=handle)


def _whole(path: str, command: type[Command[Any]], handle: Handler, method: str = "GET") -> Route:
    """A route about the whole home: callers that are confined to a tenant are refused."""
    return replace(_route(method, path, command, handle), verify=system.whole_home)


_EXECUTION: Final = "/v1/workflows/{workflow}/{id}"
_METHOD: Final = "/v1/actors/{actor}/{key}/{method}"
_ACTOR: Final = "/v1/actors/{actor}/{key}"
_PARKED: Final = "/v1/dlq/{message}"
_QUEUE: Final = "/v1/queues/{queue}"
_LIMIT: Final = "/v1/limits/{limit}"
_CALLBACK: Final = "/v1/callbacks/{token}"

ROUTES: Final = (
    Route(method="GET", path="/v1/health", command=None, right=None, handle=health),
    Route(
        method="POST",
        path="/",
        command=None,
        right=Right.CONTROL,
        ask=states.right_of,
        handle=states.answer,
        waits_for=states.waits_for,
        verify=system.whole_home,
        is_served=lambda options: options.asl,
        refused=states.refused,
    ),
    Route(method="GET", path="/v1/metrics", command=None, right=Right.READ, handle=metrics.metrics),
    _route("GET", "/v1/workflows", ListExecutions, executions.list_all),
    _route("GET", "/v1/workflows/{workflow}", ListExecutions, executions.list_all),
    _route("POST", "/v1/workflows/{workflow}", Start, executions.start),
    _route("GET", _EXECUTION, Status, executions.look),
    _route("POST", _EXECUTION, Start, executions.start),
    _route("DELETE", _EXECUTION, Delete, executions.change(Delete)),
    _route("GET", f"{_EXECUTION}/history", ReadHistory, executions.history),
    _route("GET", f"{_EXECUTION}/show", Show, showing.show),
    _route("GET", f"{_EXECUTION}/queries/{{name}}", Query, executions.ask),
    _route("POST", f"{_EXECUTION}/signals/{{name}}", Signal, executions.signal),
    _route("POST", f"{_EXECUTION}/cancel", Cancel, executions.cancel),
    _route("POST", f"{_EXECUTION}/terminate", Terminate, executions.terminate),
    _route("POST", f"{_EXECUTION}/pause", Pause, executions.change(Pause)),
    _route("POST", f"{_EXECUTION}/resume", Resume, executions.change(Resume)),
    _route("POST", f"{_EXECUTION}/move", Move, executions.change(Move)),
    _route("POST", f"{_EXECUTION}/retry", Retry, executions.change(Retry)),
    _route("POST", f"{_EXECUTION}/retry-now", RetryNow, executions.change(RetryNow, 202)),
    replace(_route("POST", f"{_EXECUTION}/fork", Fork, executions.fork), admit=executions.may_fork),
    _route("POST", f"{_EXECUTION}/callbacks/{{operation}}", AnswerCallback, callbacks.answer),
    replace(_route("POST", _CALLBACK, Complete, callbacks.complete), verify=callbacks.verify),
    replace(_route("POST", f"{_CALLBACK}/fail", Fail, callbacks.fail), verify=callbacks.verify),
    replace(_route("POST", f"{_CALLBACK}/heartbeat", Heartbeat, callbacks.heartbeat), verify=callbacks.verify),
    replace(_route("GET", _METHOD, CallMethod, actors.read), right=Right.READ, waits=True),
    replace(_route("POST", _METHOD, CallMethod, actors.call_method), ask=actors.right_of, waits=True),
    _route("POST", f"{_METHOD}/send", Send, actors.send),
    _route("GET", "/v1/actors/{actor}/{key}/requests/{id}", RequestStatus, actors.request_status),
    _route("GET", "/v1/actors", ListActors, repairs.list_actors),
    _route("GET", "/v1/actors/{actor}", ListActors, repairs.list_actors),
    _route("GET", _ACTOR, ShowActor, repairs.show_actor),
    replace(_route("DELETE", _ACTOR, DeleteActor, repairs.delete_actor), waits=True),
    _route("POST", f"{_ACTOR}/halted/resume", ResumeActor, repairs.repair(ResumeActor)),
    _route("POST", f"{_ACTOR}/halted/park", Park, repairs.repair(Park)),
    _route("POST", f"{_ACTOR}/parked/{{place}}/unpark", Unpark, repairs.unpark),
    _route("DELETE", f"{_ACTOR}/parked/{{place}}", Discard, repairs.discard),
    _route("GET", "/v1/dlq", ListParked, repairs.list_parked),
    _route("GET", _PARKED, ShowParked, repairs.show_parked),
    _route("POST", f"{_PARKED}/redrive", Redrive, repairs.redrive),
    _route("DELETE", _PARKED, DropParked, repairs.drop_parked),
    _route("POST", "/v1/events/{event}", Publish, events.publish),
    _whole("/v1/overview", Overview, system.overview),
    _whole("/v1/outbox", ListOutbox, system.list_outbox),
    _whole("/v1/schedules", ListSchedules, system.list_schedules),
    _whole("/v1/leases", ListLeases, system.list_leases),
    _whole("/v1/workers", ListWorkers, system.list_workers),
    _whole("/v1/audit", ListAudit, system.list_audit),
    _whole("/v1/queues", ListQueues, queues.list_all),
    _whole(_QUEUE, ShowQueue, queues.show),
    _whole(f"{_QUEUE}/pause", PauseQueue, queues.control(PauseQueue), "POST"),
    _whole(f"{_QUEUE}/resume", ResumeQueue, queues.control(ResumeQueue), "POST"),
    _whole(f"{_QUEUE}/set", ChangeQueue, queues.change, "POST"),
    _whole(f"{_QUEUE}/reset", ResetQueue, queues.control(ResetQueue), "POST"),
    _whole(f"{_QUEUE}/purge", PurgeQueue, queues.purge, "POST"),
    _whole("/v1/limits", ListLimits, call_limits.list_all),
    _whole(_LIMIT, ShowLimit, call_limits.show),
    _whole(f"{_LIMIT}/set", ChangeLimit, call_limits.change, "POST"),
    _whole(f"{_LIMIT}/reset", ResetLimit, call_limits.reset, "POST"),
)

_BY_LENGTH: Final[dict[int, list[tuple[tuple[str, ...], Route]]]] = {}
for _each in ROUTES:
    _BY_LENGTH.setdefault(len(_each.parts), []).append((_each.parts, _each))


EVERYTHING: Final = Options(asl=True)
"""All that can be served."""


class Found(Struct, frozen=True):
    """A route, and the values of the names in its path."""

    route: Route
    names: dict[str, str]


def find(method: str, path: str, options: Options = EVERYTHING) -> Found:
    """The route of a request, of those that are served. ``HEAD`` has that of ``GET``. Raises ``Problem`` 404 or 405."""
    try:
        given = tuple(unquote(part, errors="strict") for part in path.split("/")[1:])
    except UnicodeDecodeError:
        raise no_route() from None
    wanted = "GET" if method == "HEAD" else method
    allowed: list[str] = []
    for parts, route in _BY_LENGTH.get(len(given), ()):
        names = _names(parts, given)
        if names is None or not (route.is_served is None or route.is_served(options)):
            continue
        if route.method == wanted:
            return Found(route, names)
        allowed.append(route.method)
    if not allowed:
        raise no_route()
    told = ", ".join(dict.fromkeys(allowed))
    raise Problem(405, "method_not_allowed", f"this path takes {told}", ("allow", told))


def no_route() -> Problem:
    """The problem of a path that no route has."""
    return Problem(404, "no_route", "there is nothing at this path")


def _names(parts: tuple[str, ...], given: tuple[str, ...]) -> dict[str, str] | None:
    names: dict[str, str] = {}
    for part, value in zip(parts, given, strict=True):
        if part.startswith("{"):
            if not value:
                return None
            names[part[1:-1]] = value
        elif part != value:
            return None
    return names
