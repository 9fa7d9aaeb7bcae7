"""Callers on the same machine, for a server that knows no others.

Whoever is on this machine may do everything, if the home is nobody's in particular. One that is a user's own file has a
token, which only that user can read; web pages that the machine's browsers show may do nothing either way.
"""

from __future__ import annotations

import hmac
from typing import Final

from holdfast.http.api import Served
from holdfast.http.authentication import Caller, bearer_token, unauthenticated
from holdfast.http.messages import Loopback, Remote, Request, Vouched
from holdfast.http.network import is_loopback_host
from holdfast.http.problems import Problem

LOCAL: Final = Caller("loopback")


class LocalCallers:
    """Answers who calls, as ``Authenticate`` does."""

    def __init__(self, app: Served) -> None:
        self._app = app

    def prepare(self) -> None:
        """Have the token ready before anybody calls. Raises ``ConfigurationError`` if another user might know it."""
        token = self._app.runtime().home.token
        if token is not None:
            token()

    def __call__(self, request: Request) -> Caller:
        """Whoever is on this machine, and has the home's token if it has one. Raises ``Problem`` for everybody else."""
        _check_source(request)
        token = self._app.runtime().home.token
        if token is not None and not hmac.compare_digest(token().encode(), bearer_token(request)):
            raise unauthenticated(
                "the database is private: send its token, which is in the file beside it whose name ends with -token: "
                "curl -H @FILE, or: holdfast ask"
            )
        return LOCAL


def _check_source(request: Request) -> None:
    match request.source:
        case Loopback():
            pass
        case Remote() | Vouched():
            raise unauthenticated(
                "this server knows no callers, so it serves this machine only: give it authenticate=..., or tokens"
            )
    hosts = request.header_values("host")
    if len(hosts) != 1 or not is_loopback_host(hosts[0]):
        raise Problem(403, "forbidden", "without authentication this server is called by its loopback address only")
    for origin in request.header_values("origin"):
        if origin.partition("://")[2] != hosts[0]:
            raise Problem(403, "forbidden", "without authentication this server takes nothing from other sites' pages")
