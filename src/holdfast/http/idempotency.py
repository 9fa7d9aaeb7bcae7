"""The ``Idempotency-Key`` header: a request that changes something runs once, and a repeat gets the same response.

It follows the IETF draft "The Idempotency-Key HTTP Header Field" (draft-ietf-httpapi-idempotency-key-header): 400
without a key, 409 while the first request is running, 422 for another request under the same key.
"""

from __future__ import annotations

import hashlib
from collections.abc import Awaitable, Callable, Iterable
from typing import Any, Final

import msgspec

from holdfast import ids
from holdfast.containment import contained
from holdfast.coordination.idempotency import Ended, Place, Terms, place_of
from holdfast.duration import Duration, milliseconds, seconds
from holdfast.errors import (
    HoldfastError,
    LeaseLost,
    ResultNotStored,
)
from holdfast.http.authentication import unauthenticated
from holdfast.http.exchange import Exchange, Receive, Scope, Send, send_response
from holdfast.http.messages import Response, header_id
from holdfast.http.problems import Problem, problem_of
from holdfast.http.room import Room, Share
from holdfast.kernel.runtime import Declares
from holdfast.keys import check_name
from holdfast.patterns.attempts import Attempt, Attempts, Policy
from holdfast.patterns.keys import key_text

AsgiApp = Callable[[Scope, Receive, Send], Awaitable[None]]

HEADER: Final = b"idempotency-key"
SCOPE_KEY: Final = "holdfast.idempotency_key"
REPLAYED: Final = ("idempotent-replayed", "true")
NOBODY: Final = (
    "an Idempotency-Key belongs to a caller, and this request has none: send Authorization, or let the server name "
    "the caller: IdempotentRequests(..., caller=...)"
)
BODIES_BYTES: Final = 64 * 1024 * 1024
"""The memory that the bodies of all requests under way may take together."""

NOT_KEPT: Final = frozenset({408, 409, 425, 429})
"""Responses that ask for a retry, which must run then. Those from 500 up are not kept either."""


def by_authorization(scope: Scope) -> str:
    """The caller: the user that an earlier authentication found (``scope["user"]``, as in Starlette), else a digest of
    the ``Authorization`` header. Empty if there is neither: then the caller is unknown.
    """
    user: Any = scope.get("user")
    if getattr(user, "is_authenticated", False):
        return f"user {user.identity if hasattr(user, 'identity') else user.display_name}"
    given = [value for name, value in scope["headers"] if name == b"authorization"]
    return ids.fingerprint(b"\n".join(given)) if given else ""


def anybody(_scope: Scope) -> str:
    """Treat all callers as one: the key and the request are enough to get the response. It must hold no secrets."""
    return "anybody"


class IdempotentRequests:
    """ASGI middleware: requests of ``methods`` need an ``Idempotency-Key``, and run once for each.

    ``app`` is the Holdfast app, which must be open. A key belongs to the caller that the function ``caller`` names from
    the ASGI scope, so no caller gets the response of another. A request without a caller is refused with 401. If
    callers log in by cookie, pass a function that names them. If all callers are one, pass ``caller=anybody``.

    The bodies of all requests under way may take 64 MB; a request over that is answered with 503. Responses are kept
    for ``window``, except for those from 500 up and those that ask for a retry. With ``required=False`` a request
    without a key passes unprotected.

    The application may run again if a process dies before the response is recorded. The key for its own effects is
    ``scope["holdfast.idempotency_key"]``: text that is the same on every attempt, and different for every other key,
    caller and ``name`` (G10).

        Starlette(routes=[...], middleware=[Middleware(IdempotentRequests, app=app)])
        Route("/charges", charge, methods=["POST"], middleware=[Middleware(IdempotentRequests, app=app)])
    """

    def __init__(  # noqa: PLR0913 - each option is one decision of the user's
        self,
        asgi: AsgiApp,
        app: Declares,
        *,
        name: str = "http",
        window: Duration = "24h",
        lease: Duration = "30s",
        wait: Duration = 0,
        methods: Iterable[str] = ("POST", "PATCH"),
        required: bool = True,
        caller: Callable[[Scope], str | None] = by_authorization,
        max_crashes: int = 5,
    ) -> None:
        check_name("handler", name)
        self._asgi = asgi
        self._connect = app.runtime
        self._room = Room(BODIES_BYTES)
        self._name = name
        self._methods = frozenset(methods)
        self._required = required
        self._caller = caller
        policy = Policy(
            name=name,
            what="the request",
            terms=Terms(milliseconds(window), max_crashes),
            lease_ms=milliseconds(lease),
            wait_seconds=seconds(wait),
        )
        self._attempts = Attempts(app.runtime, policy)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one ASGI connection."""
        if scope["type"] != "http" or scope["method"] not in self._methods:
            await self._asgi(scope, receive, send)
            return
        keys = [value for name, value in scope["headers"] if name == HEADER]
        if not keys and not self._required:
            await self._asgi(scope, receive, send)
            return
        share = Share(self._room)
        try:
            await self._serve(scope, receive, send, keys, share)
        finally:
            share.give_back()

    async def _serve(self, scope: Scope, receive: Receive, send: Send, keys: list[bytes], share: Share) -> None:
        try:
            parsed = header_id("Idempotency-Key", [each.decode("latin-1") for each in keys])
            caller = self._caller(scope)
            if not caller:
                raise unauthenticated(NOBODY)
            key = key_text([f"caller {caller}", parsed], "the request")
            exchange = await Exchange.read(scope, receive, send, self._connect().limit_bytes, share.grow_to)
            if exchange is None:  # the client has gone
                return
            begun = await self._attempts.begin(self._place(scope, key, exchange.body))
            if isinstance(begun, Ended):
                await _replay(begun, send)
                return
        except Problem as problem:
            await send_response(problem.response(), send, ("connection", "close"))
            return
        except HoldfastError as error:
            await send_problem(error, send)
            return
        exchange.scope[SCOPE_KEY] = _for_effects(self._name, key)
        await self._run(begun, exchange)

    def _place(self, scope: Scope, key: str, body: bytes) -> Place:
        request = [scope["method"], scope["path"], scope["query_string"].decode("latin-1"), ids.fingerprint(body)]
        fingerprint = ids.fingerprint(msgspec.json.encode(request) + body)
        return place_of(f"!http!{self._name}", key, fingerprint)

    async def _run(self, attempt: Attempt, exchange: Exchange) -> None:
        async def settle(response: Response | None, why: str) -> HoldfastError | None:
            return await self._settle(attempt, response, why)

        try:
            await contained(self._asgi(exchange.scope, exchange.receive, exchange.gate(settle, send_problem)))
        except GeneratorExit:  # the request is dropped and may await nothing: the lease expires
            attempt.stop()
            raise
        except BaseException as error:
            if not exchange.settled:
                await self._attempts.failed(attempt, error, final=False)
            raise
        if not exchange.settled:
            await self._attempts.failed(attempt, RuntimeError("there was no whole response"), final=False)

    async def _settle(self, attempt: Attempt, response: Response | None, why: str) -> HoldfastError | None:
        """Record the response before it is sent (G7). Returns an error to send instead, if there is one."""
        try:
            if response is None:
                await self._attempts.complete_without_result(attempt, why)
            elif response.status >= 500 or response.status in NOT_KEPT:
                failure = RuntimeError(f"the response had status {response.status}")
                await self._attempts.failed(attempt, failure, final=False)
            else:
                await self._attempts.complete(attempt, msgspec.json.encode(response))
        except ResultNotStored:
            return None  # the work is done, and its caller is told so
        except LeaseLost as error:
            return error
        return None


async def _replay(ended: Ended, send: Send) -> None:
    if ended.record.lost:
        raise ResultNotStored(
            f"this request was served before, and its response could not be kept: {ended.record.lost}"
        )
    response = msgspec.json.decode(bytes(ended.record.result), type=Response)
    await send_response(response, send, REPLAYED)


async def send_problem(error: HoldfastError, send: Send) -> None:
    """Answer with an error as ``application/problem+json`` (RFC 9457); ``code`` is stable."""
    await send_response(problem_of(error).response(), send)


def _for_effects(name: str, key: str) -> str:
    """The key to pass on: 128 bits, so that no caller can forge another caller's."""
    return hashlib.blake2b(f"{name}\n{key}".encode(), digest_size=16).hexdigest()
