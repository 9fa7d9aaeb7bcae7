"""Who calls, and what he may do."""

from __future__ import annotations

import hashlib
import hmac
import inspect
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Final

from msgspec import Struct

from holdfast.commands.right import Right
from holdfast.errors import ConfigurationError
from holdfast.http.messages import Loopback, Remote, Request, Vouched
from holdfast.http.problems import Problem

TENANT_WORD: Final = "tenant="
SHORTEST_TOKEN_CHARACTERS: Final = 32
"""As many hexadecimal digits as 128 random bits have."""


ALL_RIGHTS: Final = frozenset(Right)
RESERVED_BEGINNINGS: Final = "~!"
"""Of ids that Holdfast derives, and of actors that are hidden."""


class Caller(Struct, frozen=True):
    """Who calls, as telemetry names him, and what he may do.

    With a ``tenant``, such as ``acme/``, he is confined to ids of executions, keys of actors and ids of events that
    begin with it. Raises ``ConfigurationError`` for a tenant that might be the beginning of another one.
    """

    name: str
    rights: frozenset[Right] = ALL_RIGHTS
    tenant: str = ""

    def __post_init__(self) -> None:
        if self.tenant and (
            not self.tenant.isprintable() or self.tenant[-1].isalnum() or self.tenant[0] in RESERVED_BEGINNINGS
        ):
            raise ConfigurationError(
                f"the tenant {self.tenant!r} of {self.name!r} is no prefix of ids: end it with a separator, such as "
                "acme/, or acme would see what is acme2's; it is printable, and begins with neither ~ nor !"
            )


Named = Caller | str | None
"""A caller, the name of one who may do everything, or nobody that is known."""

Authenticate = Callable[[Request], Named | Awaitable[Named]]


class BearerTokens:
    """Callers by the token that they send: ``Authorization: Bearer <token>``.

        app.asgi(authenticate=BearerTokens({"till": token, "grafana": other}, rights={"grafana": ["read"]}))

    ``tokens`` are by the names of their callers, 32 characters or more; ``rights`` limit a caller, who may do
    everything otherwise; ``tenants`` are prefixes of ids and keys that callers are confined to.

    Only digests are kept, and looking takes as long whichever token it is.
    """

    def __init__(
        self,
        tokens: Mapping[str, str],
        *,
        rights: Mapping[str, Iterable[str]] | None = None,
        tenants: Mapping[str, str] | None = None,
    ) -> None:
        limited: Mapping[str, Iterable[str]] = {} if rights is None else rights
        confined: Mapping[str, str] = {} if tenants is None else tenants
        if strangers := sorted((limited.keys() | confined.keys()) - tokens.keys()):
            raise ConfigurationError(f"rights or tenants of callers without a token: {', '.join(strangers)}")
        for name, token in tokens.items():
            _check_token(name, token)
        _check_apart(confined)
        self._callers = tuple(
            (
                _digest(token.encode()),
                Caller(
                    name,
                    _rights(name, limited[name]) if name in limited else ALL_RIGHTS,
                    _tenant(name, confined[name]) if name in confined else "",
                ),
            )
            for name, token in tokens.items()
        )

    def __repr__(self) -> str:
        return f"<BearerTokens of {', '.join(caller.name for _, caller in self._callers) or 'nobody'}>"

    def __call__(self, request: Request) -> Caller | None:
        """Whose token a request brings."""
        digest = _digest(bearer_token(request))
        found: Caller | None = None
        for known, caller in self._callers:
            if hmac.compare_digest(known, digest):
                found = caller
        return found

    @classmethod
    def read(cls, text: str) -> BearerTokens:
        """Tokens from configuration: a line for each caller, ``name token``, ``name token read,write``, and behind
        either ``tenant=acme/``.
        """
        tokens: dict[str, str] = {}
        rights: dict[str, list[str]] = {}
        tenants: dict[str, str] = {}
        for number, line in enumerate(text.splitlines(), start=1):
            words = line.split()
            if not words or line.lstrip().startswith("#"):
                continue
            if words[-1].startswith(TENANT_WORD):
                tenants[words[0]] = words.pop().removeprefix(TENANT_WORD)
            if len(words) not in {2, 3} or words[0] in tokens:
                raise ConfigurationError(
                    f"line {number} of the tokens: write each caller once: name token [rights] [tenant=prefix]"
                )
            tokens[words[0]] = words[1]
            if len(words) == 3:
                rights[words[0]] = words[2].split(",")
        if not tokens:
            raise ConfigurationError("there is no token; write a line for each caller: name token [rights]")
        return cls(tokens, rights=rights, tenants=tenants)


def _tenant(name: str, given: str) -> str:
    if not given:
        raise ConfigurationError(f"the tenant of {name!r} is empty: leave it out, or write a prefix such as acme/")
    return given


def _check_apart(tenants: Mapping[str, str]) -> None:
    """One tenant within another would see what is the other's."""
    known = set(tenants.values())
    for inner in known:
        for outer in known - {inner}:
            if inner.startswith(outer):
                raise ConfigurationError(f"the tenant {inner!r} lies within {outer!r}, whose callers would see it")


def bearer_token(request: Request) -> bytes:
    """The token that a request brings; empty if it brings none."""
    given = request.header_values("authorization")
    scheme, _, token = given[0].partition(" ") if len(given) == 1 else ("", "", "")
    return token.strip().encode("latin-1", "replace") if scheme.lower() == "bearer" else b""


def _check_token(name: str, token: str) -> None:
    if len(token) < SHORTEST_TOKEN_CHARACTERS or not token.isascii() or not token.isprintable() or " " in token:
        raise ConfigurationError(
            f"the token of {name!r} is no secret: it needs {SHORTEST_TOKEN_CHARACTERS} or more ASCII characters "
            "without spaces, at random; make one with: openssl rand -hex 32"
        )


def _rights(name: str, given: Iterable[str]) -> frozenset[Right]:
    wanted = set(given)
    if strange := sorted(wanted - set(Right)):
        raise ConfigurationError(f"{name!r} has no rights called {', '.join(strange)}; there are: {', '.join(Right)}")
    return frozenset(map(Right, wanted))


def _digest(token: bytes) -> bytes:
    return hashlib.sha256(token).digest()


def iam_caller(request: Request) -> str | None:
    """Whoever AWS has let through by IAM, under his ARN and with every right; nobody else.

    For a function behind a front door that checks signatures, such as a function URL with ``AWS_IAM``. Say so only if
    everybody who may invoke the URL may do everything here; else call this in a function of yours, which gives rights.

        handler = app.lambda_handler(http=hf.iam_caller)
    """
    match request.source:
        case Vouched(name):
            return name
        case Remote() | Loopback():
            return None


async def caller_of(request: Request, authenticate: Authenticate) -> Caller:
    """Who sends a request. Raises ``Problem`` if nobody knows."""
    named = authenticate(request)
    found = await named if inspect.isawaitable(named) else named
    match found:
        case Caller():
            return found
        case str() if found:
            return Caller(found)
        case _:
            raise unauthenticated("who calls? Send a token that is known here: Authorization: Bearer ...")


def unauthenticated(detail: str) -> Problem:
    """Nobody knows who calls."""
    return Problem(401, "unauthenticated", detail, ("www-authenticate", "Bearer"))


def check_right(caller: Caller, right: Right) -> None:
    """Raise ``Problem`` unless a caller may do this."""
    if right not in caller.rights:
        raise Problem(403, "forbidden", f"{caller.name} has no right to {right.value} here")


def check_place(caller: Caller, id: str) -> None:
    """Raise ``Problem`` unless a caller may use this id. The answer is the same whether it is there or not."""
    if not id.startswith(caller.tenant):
        raise Problem(403, "forbidden", f"{caller.name} is confined to ids and keys that begin with {caller.tenant!r}")
