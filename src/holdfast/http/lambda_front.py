"""HTTP requests to an AWS Lambda function: which work an invocation waits for, and which it leaves to another one."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl

from holdfast.http.api import ClientWait, Options, Served
from holdfast.http.lambda_events import Shape, body_of, shape_of, to_request, to_response
from holdfast.http.lambda_site import AskedSite, is_below
from holdfast.http.limits import HttpLimits, check_size
from holdfast.http.messages import Request
from holdfast.http.problems import Problem
from holdfast.http.respond import respond
from holdfast.http.routes import find

if TYPE_CHECKING:
    from holdfast.http.asgi import Mounted, Servable


class HttpFront:
    """Takes the HTTP requests among the events of a function."""

    def __init__(self, app: Servable, options: Options, mounted: Mounted | None = None) -> None:
        self._app = app
        self._options = options
        self._mount_path = "" if mounted is None else mounted.path.rstrip("/")
        self._site = None if mounted is None else mounted.site(app, options)

    def take(self, event: Any) -> Asked | AskedSite | None:
        """The request in an event; ``None`` if there is none. Its body is decoded once its caller is admitted."""
        shape, request = shape_of(event), to_request(event)
        if shape is None or request is None:
            return None
        limit_bytes = self._options.limits.body_bytes
        if self._site is not None and is_below(request.path, self._mount_path):
            return AskedSite(self._site, self._mount_path, event, request, shape, limit_bytes)

        async def read_body() -> bytes:
            return body_of(event, limit_bytes)

        return Asked(self._app, request, shape, self._options, read_body)


class Asked:
    """One request. ``waits`` says whether its answer waits for work."""

    def __init__(
        self,
        app: Served,
        request: Request,
        shape: Shape,
        options: Options,
        read_body: Callable[[], Awaitable[bytes]],
    ) -> None:
        self._app = app
        self._request = request
        self._shape = shape
        self._options = options
        self._read_body = read_body
        self._patience = ClientWait()
        self.waits = _waits(request, options.limits)

    async def answer(self) -> dict[str, Any]:
        """The response, in the form that the front door takes."""
        response = await respond(
            self._app, self._request, self._options, patience=self._patience, read_body=self._read_body
        )
        return to_response(response, self._shape)

    def stop_waiting(self) -> None:
        """Answer now with the current status: time is up."""
        self._patience.server_stops()


def _waits(request: Request, limits: HttpLimits) -> bool:
    try:
        check_size(request, limits)
        found = find(request.method, request.path)
    except Problem:
        return False
    if found.route.waits_for is not None and found.route.waits_for(request):
        return True
    return found.route.waits or any(name == "wait" for name, _ in parse_qsl(request.query))
