"""Visits: a session per visitor, under a cookie; ASGI middleware that finds it, or begins one.

Carts and orders belong to the visit's ``owner``: a guest under a random name, or a member under his own.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping, MutableMapping
from typing import Any

from examples.shopping_cart import carts
from examples.shopping_cart.shop import app
from starlette.datastructures import MutableHeaders
from starlette.requests import HTTPConnection
from starlette.types import ASGIApp, Message, Receive, Scope, Send

import holdfast as hf

COOKIE = "visit"
LIFETIME_SECONDS = 30 * 86_400

sessions = app.session("visits", idle="30m", lifetime="30d")


class Visit:
    """Who makes this request. ``must_tell``: his browser does not know the session's id yet."""

    def __init__(self, session: hf.Session, *, is_new: bool) -> None:
        self.id = session.id
        self.owner: str = session.values["owner"]
        self.must_tell = is_new

    @property
    def is_guest(self) -> bool:
        return self.owner.startswith("guest ")

    async def log_in(self, member: str) -> None:
        """Go on as a member, with all that the guest has chosen, under another id.

        If the process dies on the way, the visitor logs in once more: moving the cart is done once, and the id he was
        known by has no member's rights at any time.
        """
        owner = f"member {member}"
        if self.owner != owner:
            await carts.merge(self.owner, owner)
        self.id = await sessions.rotate(self.id)
        await sessions.update(self.id, {"owner": owner})
        self.owner, self.must_tell = owner, True

    async def log_out(self) -> None:
        """End the session; the next request of this browser finds nothing under its cookie."""
        await sessions.end(self.id)

    @property
    def cookie(self) -> str:
        """For ``Set-Cookie``. Behind TLS add ``Secure``."""
        return f"{COOKIE}={self.id}; Max-Age={LIFETIME_SECONDS}; Path=/; HttpOnly; SameSite=Lax"


def visit_of(scope: Mapping[str, Any] | MutableMapping[str, Any]) -> Visit:
    """The visit of this request."""
    visit: Visit = scope["visit"]
    return visit


def owner_of(scope: MutableMapping[str, Any]) -> str:
    """Whose request it is: for ``IdempotentRequests(caller=...)``. A new session of a member has the same owner."""
    return visit_of(scope).owner


class Visits:
    """ASGI middleware: ``scope["visit"]``, and the cookie, if the browser does not have it yet."""

    def __init__(self, asgi: ASGIApp) -> None:
        self._asgi = asgi

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one connection."""
        if scope["type"] != "http":
            await self._asgi(scope, receive, send)
            return
        id = HTTPConnection(scope).cookies.get(COOKIE)
        session = await sessions.find(id) if id else None
        visit = Visit(session or await sessions.start({"owner": f"guest {uuid.uuid4().hex}"}), is_new=session is None)

        async def with_cookie(message: Message) -> None:
            if message["type"] == "http.response.start" and visit.must_tell:
                MutableHeaders(scope=message).append("set-cookie", visit.cookie)
            await send(message)

        await self._asgi({**scope, "visit": visit}, receive, with_cookie)
