"""Callers on the same machine, for a server without authentication.

If the home is a user's own file, it has a token that only that user can read. If it belongs to no user in particular,
every process on this machine may do everything. Web pages in the machine's browsers may do nothing either way.
"""

from __future__ import annotations

import hmac
from typing import Final

from holdfast.http.api import Served
from holdfast.http.authentication import Caller, Signed, bearer_token, unauthenticated
from holdfast.http.messages import Loopback, Remote, Request, Vouched
from holdfast.http.network import is_below_localhost, is_loopback_host
from holdfast.http.problems import Problem
from holdfast.http.signatures import signature_of

LOCAL: Final = Caller("loopback")


class LocalCallers:
    """Identifies callers on this machine, as an ``Authenticate`` does."""

    def __init__(self, app: Served) -> None:
        self._app = app

    def prepare(self) -> None:
        """Create the token before the first request. Raises ``ConfigurationError`` if another user might know it."""
        token = self._app.runtime().home.token
        if token is not None:
            token()

    def __call__(self, request: Request) -> Caller | Signed:
        """The caller, if it is on this machine and has the home's token, if any. Raises ``Problem`` for others."""
        _check_source(request)
        token = self._app.runtime().home.token
        if token is not None and (signature := signature_of(request)) is not None:
            return Signed(LOCAL, signature, token())
        if token is not None and not hmac.compare_digest(token().encode(), bearer_token(request)):
            raise unauthenticated(
                "the database is private: send its token, which is in the file next to it whose name ends with -token: "
                "curl -H @FILE, or: holdfast ask"
            )
        return LOCAL


def _check_source(request: Request) -> None:
    match request.source:
        case Loopback():
            pass
        case Remote() | Vouched():
            raise unauthenticated(
                "this server has no authentication, so it serves this machine only: give it authenticate=..., or tokens"
            )
    hosts = request.header_values("host")
    if len(hosts) != 1 or not (is_loopback_host(hosts[0]) or is_below_localhost(hosts[0])):
        raise Problem(403, "forbidden", "without authentication, call this server by its loopback address only")
    for origin in request.header_values("origin"):
        if origin.partition("://")[2] != hosts[0]:
            raise Problem(403, "forbidden", "without authentication this server refuses requests of other sites' pages")
