"""Callers: who sends a request, and what that caller may do."""

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
from holdfast.http.signatures import Signature, signature_of

TENANT_WORD: Final = "tenant="
SHORTEST_TOKEN_CHARACTERS: Final = 32
"""The hexadecimal digits of 128 random bits."""


ALL_RIGHTS: Final = frozenset(Right)
RESERVED_BEGINNINGS: Final = "~!"
"""How the ids that Holdfast derives begin, and the names of hidden actors."""


class Caller(Struct, frozen=True):
    """A caller: its name, which telemetry shows, and its rights.

    A ``tenant``, such as ``acme/``, confines the caller to ids of executions, keys of actors and ids of events that
    begin with it. Raises ``ConfigurationError`` for a tenant that could be the beginning of another one.
    """

    name: str
    rights: frozenset[Right] = ALL_RIGHTS
    tenant: str = ""

    def __post_init__(self) -> None:
        if self.tenant and (
            not self.tenant.isprintable() or self.tenant[-1].isalnum() or self.tenant[0] in RESERVED_BEGINNINGS
        ):
            raise ConfigurationError(
                f"the tenant {self.tenant!r} of {self.name!r} cannot be a prefix of ids: end it with a separator, such "
                "as acme/, or acme would see what is acme2's; it must be printable, and begin with neither ~ nor !"
            )


class Signed(Struct, frozen=True):
    """A caller that a signature names. It is verified once the body is read, which it covers."""

    caller: Caller
    signature: Signature
    secret: str

    def verify(self, request: Request, now_ms: int) -> None:
        """Raise ``Problem`` unless the caller has signed this whole request, not long ago."""
        if not self.signature.matches(request, self.secret, now_ms):
            raise unauthenticated(
                "the signature is not that of this request: sign it with the caller's name as the access key id and "
                "its token as the secret access key, and look at the clock"
            )


Named = Caller | Signed | str | None
"""A caller, one that has signed its request, the name of one with every right, or ``None`` for an unknown one."""

Authenticate = Callable[[Request], Named | Awaitable[Named]]


class BearerTokens:
    """Identifies callers by the token that they send: ``Authorization: Bearer <token>``.

        app.asgi(authenticate=BearerTokens({"till": token, "grafana": other}, rights={"grafana": ["read"]}))

    ``tokens`` maps the names of callers to tokens of 32 characters or more. ``rights`` limits what a caller may do,
    which is everything otherwise. ``tenants`` are the prefixes of ids and keys that callers are confined to. Raises
    ``ConfigurationError`` for weak tokens, unknown rights and tenants that overlap.

    Only digests are kept, and a lookup takes the same time for every token. With ``signatures`` a caller may sign its
    requests instead, as AWS's SDKs do: its name is the access key id, its token the secret access key, which is kept
    then, in memory.
    """

    def __init__(
        self,
        tokens: Mapping[str, str],
        *,
        rights: Mapping[str, Iterable[str]] | None = None,
        tenants: Mapping[str, str] | None = None,
        signatures: bool = False,
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
        self._secrets = dict(tokens) if signatures else {}

    def __repr__(self) -> str:
        return f"<BearerTokens of {', '.join(caller.name for _, caller in self._callers) or 'nobody'}>"

    def __call__(self, request: Request) -> Caller | Signed | None:
        """The caller whose token, or signature, a request has; ``None`` if there is no such caller."""
        if self._secrets and (signature := signature_of(request)) is not None:
            return self._signed(signature)
        digest = _digest(bearer_token(request))
        found: Caller | None = None
        for known, caller in self._callers:
            if hmac.compare_digest(known, digest):
                found = caller
        return found

    def _signed(self, signature: Signature) -> Signed | None:
        secret = self._secrets.get(signature.key_id)
        if secret is None:
            return None
        caller = next(each for _, each in self._callers if each.name == signature.key_id)
        return Signed(caller, signature, secret)

    @classmethod
    def read(cls, text: str, *, signatures: bool = False) -> BearerTokens:
        """Read tokens from text with one line per caller: ``name token`` or ``name token read,write``, either followed
        by ``tenant=acme/`` if wanted. Raises ``ConfigurationError``.
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
        return cls(tokens, rights=rights, tenants=tenants, signatures=signatures)


def _tenant(name: str, given: str) -> str:
    if not given:
        raise ConfigurationError(f"the tenant of {name!r} is empty: leave it out, or write a prefix such as acme/")
    return given


def _check_apart(tenants: Mapping[str, str]) -> None:
    """Raise ``ConfigurationError`` if a tenant lies within another, whose callers would see it."""
    known = set(tenants.values())
    for inner in known:
        for outer in known - {inner}:
            if inner.startswith(outer):
                raise ConfigurationError(
                    f"the tenant {inner!r} lies within {outer!r}, whose callers would see it: keep prefixes apart"
                )


def bearer_token(request: Request) -> bytes:
    """The token of a request; empty if it has none."""
    given = request.header_values("authorization")
    scheme, _, token = given[0].partition(" ") if len(given) == 1 else ("", "", "")
    return token.strip().encode("latin-1", "replace") if scheme.lower() == "bearer" else b""


def _check_token(name: str, token: str) -> None:
    if len(token) < SHORTEST_TOKEN_CHARACTERS or not token.isascii() or not token.isprintable() or " " in token:
        raise ConfigurationError(
            f"the token of {name!r} is not a secret: it must have at least {SHORTEST_TOKEN_CHARACTERS} random ASCII "
            "characters without spaces; make one with: openssl rand -hex 32"
        )


def _rights(name: str, given: Iterable[str]) -> frozenset[Right]:
    wanted = set(given)
    if strange := sorted(wanted - set(Right)):
        raise ConfigurationError(f"{name!r} has no rights called {', '.join(strange)}; there are: {', '.join(Right)}")
    return frozenset(map(Right, wanted))


def _digest(token: bytes) -> bytes:
    return hashlib.sha256(token).digest()


def iam_caller(request: Request) -> str | None:
    """The ARN of a caller that AWS has authenticated by IAM; it gets every right. ``None`` for any other request.

    Use it behind a front door that checks signatures, such as a function URL with ``AWS_IAM``, and only if all callers
    that may invoke the URL may do everything here. Otherwise call it in a function of your own that gives rights.

        handler = app.lambda_handler(http=hf.iam_caller)
    """
    match request.source:
        case Vouched(name):
            return name
        case Remote() | Loopback():
            return None


async def caller_of(request: Request, authenticate: Authenticate) -> Caller:
    """The caller that sends a request. Raises ``Problem`` if it is unknown, or signs where nothing is signed."""
    match await admitted(request, authenticate):
        case Caller() as caller:
            return caller
        case Signed():
            raise unauthenticated("a signature is for the API; send a token here: Authorization: Bearer ...")


async def admitted(request: Request, authenticate: Authenticate) -> Caller | Signed:
    """Who is let in by the head of a request. Raises ``Problem`` if the caller is unknown."""
    named = authenticate(request)
    found = await named if inspect.isawaitable(named) else named
    match found:
        case Caller() | Signed():
            return found
        case str() if found:
            return Caller(found)
        case _:
            raise unauthenticated("who calls? Send a token that is known here: Authorization: Bearer ...")


def unauthenticated(detail: str) -> Problem:
    """The problem of an unknown caller."""
    return Problem(401, "unauthenticated", detail, ("www-authenticate", "Bearer"))


def check_right(caller: Caller, right: Right) -> None:
    """Raise ``Problem`` unless a caller has this right."""
    if right not in caller.rights:
        raise Problem(403, "forbidden", f"{caller.name} has no right to {right.value} here")


def check_place(caller: Caller, id: str) -> None:
    """Raise ``Problem`` unless a caller may use this id. The answer does not show whether the id exists."""
    if not id.startswith(caller.tenant):
        raise Problem(403, "forbidden", f"{caller.name} is confined to ids and keys that begin with {caller.tenant!r}")
