"""Pages of an app behind AWS Lambda's front doors: an ASGI application that answers one request, whole.

Nothing can be streamed there, so the scope says that the answer is sent in one piece: pages ask for news themselves.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote

from holdfast.http.exchange import response_of
from holdfast.http.lambda_events import Shape, body_of, stage_path, to_response
from holdfast.http.problems import Problem

if TYPE_CHECKING:
    from holdfast.http.asgi import Site
    from holdfast.http.exchange import Message, Scope
    from holdfast.http.messages import Request, Response

REQUEST: Final = "holdfast.request"
"""The request in a scope, where no connection says where it came from."""

ONE_PIECE: Final = "holdfast.one_piece"
"""Set in the scope of a request whose answer is sent in one piece."""


def is_below(path: str, mount_path: str) -> bool:
    """Whether a path leads to pages that are mounted here."""
    return path == mount_path or path.startswith(f"{mount_path}/")


class AskedSite:
    """One request to the pages. Its answer waits for no work."""

    waits = False

    def __init__(
        self, site: Site, mount_path: str, event: Any, request: Request, shape: Shape, limit_bytes: int
    ) -> None:
        self._site = site
        self._mount_path = mount_path
        self._event = event
        self._request = request
        self._shape = shape
        self._limit_bytes = limit_bytes

    async def answer(self) -> dict[str, Any]:
        """The response, in the form that the front door takes."""
        return to_response(await self._response(), self._shape)

    def stop_waiting(self) -> None:
        """Nothing is waited for."""

    async def _response(self) -> Response:
        sent: list[Message] = []
        body: bytes | None = None

        async def receive() -> Message:
            nonlocal body
            if body is not None:
                return {"type": "http.disconnect"}
            body = body_of(self._event, self._limit_bytes)
            return {"type": "http.request", "body": body, "more_body": False}

        async def send(message: Message) -> None:
            sent.append(message)

        try:
            await self._site(self._scope(), receive, send)
        except Problem as problem:
            return problem.response()
        return response_of(sent[0], b"".join(each.get("body", b"") for each in sent[1:]))

    def _scope(self) -> Scope:
        request = self._request
        stage = stage_path(self._event)
        path = unquote(request.path)
        return {
            "type": "http",
            "asgi": {"version": "3.0"},
            "http_version": "1.1",
            "scheme": "https",  # front doors take nothing else, but for a load balancer that is set up so
            "method": request.method,
            "path": unquote(stage) + (path if path != self._mount_path else f"{path}/"),
            "raw_path": f"{stage}{request.path}".encode(),
            "root_path": stage + self._mount_path,
            "query_string": request.query.encode(),
            "headers": [
                (name.encode("latin-1"), value.encode("latin-1", "replace")) for name, value in request.headers
            ],
            REQUEST: request,
            ONE_PIECE: True,
        }
