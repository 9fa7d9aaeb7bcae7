"""The routes: which path is what, and what a caller needs for it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Final
from urllib.parse import unquote

from msgspec import Struct

from holdfast.http import actors, callbacks, events, executions
from holdfast.http.api import Call, Served
from holdfast.http.authentication import Right
from holdfast.http.messages import Response, json_response
from holdfast.http.problems import Problem

Handler = Callable[[Call], Awaitable[Response]]
Verify = Callable[[Call], Awaitable[None]]


class Route(Struct, frozen=True):
    """One method of one path. ``right`` is what its caller needs, unless ``ask`` says more exactly; ``None``: it is
    open to everybody, or to those whom ``verify`` lets in, by what the path holds. ``admit`` is asked once the body is
    read: whether the caller is let in may depend on that, too.
    """

    method: str
    path: str
    right: Right | None
    handle: Handler
    verify: Verify | None = None
    ask: Callable[[Served, Mapping[str, str]], Right] | None = None
    admit: Callable[[Call], None] | None = None

    @property
    def reads_body(self) -> bool:
        """Whether a body is looked at. What is open to everybody takes none."""
        return self.right is not None or self.verify is not None

    def right_in(self, app: Served, names: Mapping[str, str]) -> Right | None:
        """What its caller needs, given the parts of the path."""
        return self.right if self.ask is None else self.ask(app, names)

    @property
    def parts(self) -> tuple[str, ...]:
        """The path, part by part."""
        return tuple(self.path.split("/")[1:])

    def __str__(self) -> str:
        return f"{self.method} {self.path}"


async def health(call: Call) -> Response:
    """The process serves. Whether the store answers is not asked: that may cost money, and anybody may ask this."""
    call.query()
    call.app.runtime()
    return json_response(200, {"status": "ok"})


_EXECUTION: Final = "/v1/workflows/{workflow}/{id}"
_METHOD: Final = "/v1/actors/{actor}/{key}/{method}"
_CALLBACK: Final = "/v1/callbacks/{token}"

ROUTES: Final = (
    Route("GET", "/v1/health", None, health),
    Route("GET", "/v1/workflows", Right.READ, executions.list_all),
    Route("GET", "/v1/workflows/{workflow}", Right.READ, executions.list_all),
    Route("POST", "/v1/workflows/{workflow}", Right.WRITE, executions.start),
    Route("GET", _EXECUTION, Right.READ, executions.look),
    Route("POST", _EXECUTION, Right.WRITE, executions.start),
    Route("DELETE", _EXECUTION, Right.CONTROL, executions.delete),
    Route("GET", f"{_EXECUTION}/history", Right.READ, executions.history),
    Route("GET", f"{_EXECUTION}/queries/{{name}}", Right.READ, executions.ask),
    Route("POST", f"{_EXECUTION}/signals/{{name}}", Right.WRITE, executions.signal),
    Route("POST", f"{_EXECUTION}/cancel", Right.CONTROL, executions.cancel),
    Route("POST", f"{_EXECUTION}/terminate", Right.CONTROL, executions.terminate),
    Route("POST", f"{_EXECUTION}/pause", Right.CONTROL, executions.pause),
    Route("POST", f"{_EXECUTION}/resume", Right.CONTROL, executions.resume),
    Route("POST", f"{_EXECUTION}/move", Right.CONTROL, executions.move),
    Route("POST", f"{_EXECUTION}/retry", Right.CONTROL, executions.retry),
    Route("POST", f"{_EXECUTION}/retry-now", Right.CONTROL, executions.retry_now),
    Route("POST", f"{_EXECUTION}/fork", Right.CONTROL, executions.fork, admit=executions.may_fork),
    Route("POST", _CALLBACK, None, callbacks.complete, callbacks.verify),
    Route("POST", f"{_CALLBACK}/fail", None, callbacks.fail, callbacks.verify),
    Route("POST", f"{_CALLBACK}/heartbeat", None, callbacks.heartbeat, callbacks.verify),
    Route("GET", _METHOD, Right.READ, actors.read),
    Route("POST", _METHOD, Right.WRITE, actors.call_method, ask=actors.right_of),
    Route("POST", f"{_METHOD}/send", Right.WRITE, actors.send),
    Route("GET", "/v1/actors/{actor}/{key}/requests/{id}", Right.READ, actors.request_status),
    Route("POST", "/v1/events/{event}", Right.WRITE, events.publish),
)

_BY_LENGTH: Final[dict[int, list[tuple[tuple[str, ...], Route]]]] = {}
for _route in ROUTES:
    _BY_LENGTH.setdefault(len(_route.parts), []).append((_route.parts, _route))


class Found(Struct, frozen=True):
    """A route, and the parts of the path that it names."""

    route: Route
    names: dict[str, str]


def find(method: str, path: str) -> Found:
    """The route of a request; ``HEAD`` is answered as ``GET`` is. Raises ``Problem`` 404 or 405."""
    try:
        given = tuple(unquote(part, errors="strict") for part in path.split("/")[1:])
    except UnicodeDecodeError:
        raise no_route() from None
    wanted = "GET" if method == "HEAD" else method
    allowed: list[str] = []
    for parts, route in _BY_LENGTH.get(len(given), ()):
        names = _names(parts, given)
        if names is None:
            continue
        if route.method == wanted:
            return Found(route, names)
        allowed.append(route.method)
    if not allowed:
        raise no_route()
    told = ", ".join(dict.fromkeys(allowed))
    raise Problem(405, "method_not_allowed", f"this path takes {told}", ("allow", told))


def no_route() -> Problem:
    """Nothing is at this path."""
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
