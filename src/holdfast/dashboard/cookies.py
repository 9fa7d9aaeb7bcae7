"""How cookies are set: for this dashboard alone, out of reach of scripts and of other sites."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct

from holdfast.dashboard.sessions import NOTE_SECONDS, SESSION_SECONDS

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

HOST_PREFIX: Final = "__Host-"
SECURE_PREFIX: Final = "__Secure-"
"""Browsers take cookies of these names only over an encrypted connection; the first also only for a whole host (RFC
6265bis, "Cookie Name Prefixes"). The first is used where the dashboard is a host's root.
"""


class Jar(Struct, frozen=True):
    """The cookies of a request: the name of a session's cookie, the path of all, and whether they need encryption."""

    name: str
    path: str
    secure: bool

    @classmethod
    def of(cls, request: Request, name: str) -> Jar:
        """The cookies of this request."""
        path = root_of(request) or "/"
        # A proxy's word is enough here: a wrong one only makes a cookie stricter.
        if request.scope["scheme"] != "https" and request.headers.get("x-forwarded-proto") != "https":
            return cls(name, path, secure=False)
        return cls((HOST_PREFIX if path == "/" else SECURE_PREFIX) + name, path, secure=True)

    @property
    def note_name(self) -> str:
        """The name of the cookie with a note for the next page."""
        return f"{self.name}-note"

    def keep(self, response: Response, value: str) -> None:
        """Set the cookie of a session."""
        self._set(response, self.name, value, SESSION_SECONDS)

    def note(self, response: Response, value: str) -> None:
        """Set the cookie with a note for the next page."""
        self._set(response, self.note_name, value, NOTE_SECONDS)

    def drop(self, response: Response, name: str) -> None:
        """Remove a cookie."""
        self._set(response, name, "", 0)

    def _set(self, response: Response, name: str, value: str, seconds: int) -> None:
        response.set_cookie(
            name, value, max_age=seconds, path=self.path, secure=self.secure, httponly=True, samesite="strict"
        )


def root_of(request: Request) -> str:
    """The path of the dashboard as browsers see it; empty if it is at the root of its host."""
    root: Any = request.scope.get("root_path", "")
    return str(root).rstrip("/")
