"""HTTP requests to a function of AWS Lambda: what an invocation does of them, and what it leaves to another one."""

from __future__ import annotations

from typing import Any, Final
from urllib.parse import parse_qsl

from holdfast.http import actors
from holdfast.http.api import Options, Patience, Served
from holdfast.http.lambda_events import Shape, shape_of, to_request, to_response
from holdfast.http.messages import Request
from holdfast.http.problems import Problem
from holdfast.http.respond import respond
from holdfast.http.routes import find

CALLS: Final = (actors.call_method, actors.read)
"""What answers only when an actor has."""


class HttpFront:
    """Takes the HTTP requests among the events of a function."""

    def __init__(self, app: Served, options: Options) -> None:
        self._app = app
        self._options = options

    def take(self, event: Any) -> Asked | None:
        """The request in an event; ``None`` if there is none. Raises ``InvalidInput`` for a broken body."""
        shape, request = shape_of(event), to_request(event)
        if shape is None or request is None:
            return None
        return Asked(self._app, request, shape, self._options)


class Asked:
    """One request. ``waits`` says whether its answer waits for work."""

    def __init__(self, app: Served, request: Request, shape: Shape, options: Options) -> None:
        self._app = app
        self._request = request
        self._shape = shape
        self._options = options
        self._patience = Patience()
        self.waits = _waits(request)

    async def answer(self) -> dict[str, Any]:
        """The response, as the front door wants it."""
        response = await respond(self._app, self._request, self._options, patience=self._patience)
        return to_response(response, self._shape)

    def hurry(self) -> None:
        """Time is up: what waits answers how it stands."""
        self._patience.server_stops()


def _waits(request: Request) -> bool:
    try:
        found = find(request.method, request.path)
    except Problem:
        return False
    return found.route.handle in CALLS or any(name == "wait" for name, _ in parse_qsl(request.query))
