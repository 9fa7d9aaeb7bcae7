"""Callbacks: one answer from outside, by whoever holds the token."""

from __future__ import annotations

import asyncio
import base64
import binascii
import re
from collections.abc import Generator
from typing import Any, Final, Generic, TypeVar, cast, overload

import msgspec
from msgspec import Struct

from holdfast import ids
from holdfast.codec.typed import codec_for
from holdfast.duration import Duration, seconds
from holdfast.errors import InvalidToken, SerializationError, StepTimeout
from holdfast.kernel.activation import Activation
from holdfast.kernel.earlier import name_of
from holdfast.workflows.record import NO_VALUE, CallbackAnswer
from holdfast.workflows.scope import BodyScope, activation_for

T = TypeVar("T")

TOKEN_VERSION: Final = "hf1"  # noqa: S105 - a version, not a secret
LONGEST_TOKEN_CHARACTERS: Final = 4_000
MAILBOX_PREFIX: Final = "!callback/"

TOKEN: Final = re.compile(r"\bhf1\.[A-Za-z0-9_-]+\.[0-9a-f]{64}\b")
"""What a callback token looks like: whoever has one may answer the callback, so none is ever shown."""

_decode_answer = msgspec.json.Decoder(CallbackAnswer).decode


class Callback(Generic[T]):
    """A promise that somebody outside keeps. Hand ``token`` out in a step, then await the callback.

    Awaiting it again answers the same. Whoever gives up waiting (``asyncio.timeout``) may wait again later: the token
    stays good until there is an answer, or the callback's own timeout passes.
    """

    def __init__(
        self,
        activation: Activation,
        op: str,
        token: str,
        type: Any,
        timeout_seconds: float | None,
        heartbeat_seconds: float | None,
    ) -> None:
        self.token = token
        self._activation = activation
        self._op = op
        self._type = type
        self._heartbeat_seconds = heartbeat_seconds
        self._deadline = None if timeout_seconds is None else activation.loop.time() + timeout_seconds
        self._turn = asyncio.Lock()
        self._outcome: tuple[Any, Exception | None] | None = None

    def __await__(self) -> Generator[Any, Any, T]:
        return self.result().__await__()

    async def result(self) -> T:
        """The answer. Raises what the other side failed with, or ``StepTimeout`` when it, or its heartbeat, is late."""
        async with self._turn:
            if self._outcome is None:
                self._outcome = await self._wait()
                self._activation.close_callback(self._op)
        value, error = self._outcome
        if error is not None:
            raise error
        return cast("T", value)

    async def _wait(self) -> tuple[Any, Exception | None]:
        mailbox = self._activation.mailbox(MAILBOX_PREFIX + self._op)
        self._activation.awaits_message(f"callback:{name_of(self._op)}")
        try:
            async with asyncio.timeout_at(self._deadline):
                while True:
                    async with asyncio.timeout(self._heartbeat_seconds):
                        answer = _decode_answer(bytes(await mailbox.get()))
                    if answer.error is not None:
                        return None, self._activation.rebuild(answer.error)
                    if answer.value != NO_VALUE:
                        return codec_for(self._type).decode(bytes(answer.value), f"the answer to {self._op}"), None
        except TimeoutError:
            return None, StepTimeout(f"no answer came in time for callback {self._op}")
        except SerializationError as unfit:
            return None, unfit


@overload
def callback(
    type: type[T], *, name: str = ..., timeout: Duration | None = ..., heartbeat: Duration | None = ...
) -> Callback[T]: ...
@overload
def callback(
    type: Any = ..., *, name: str = ..., timeout: Duration | None = ..., heartbeat: Duration | None = ...
) -> Callback[Any]: ...
def callback(
    type: Any = Any, *, name: str = "callback", timeout: Duration | None = None, heartbeat: Duration | None = None
) -> Callback[Any]:
    """Open a callback: an answer of ``type`` that comes once, from whoever holds ``token``.

    ``timeout`` counts from here, ``heartbeat`` from the last sign of life (``app.callback(token).heartbeat()``). The
    token is valid at once, is the same on every replay, and is used up by the first answer or by the timeout.
    """
    activation = activation_for("hf.callback")
    op = activation.loop.current_path(name)
    scope: BodyScope = activation.context
    token = make_token(scope.partition, scope.info.run, op, scope.secret)
    return Callback(activation, op, token, type, _optional(timeout), _optional(heartbeat))


def _optional(duration: Duration | None) -> float | None:
    return None if duration is None else seconds(duration)


# ── Tokens ──────────────────────────────────────────────────────────────────────────────────────────────────────────


class TokenScope(Struct, frozen=True, array_like=True):
    """What a token gives access to: one operation of one run of one execution."""

    partition: str
    run: int
    op: str


def make_token(partition: str, run: int, op: str, secret: str) -> str:
    """A token that only the holder of the execution's secret (192 random bits) can make."""
    scope = base64.urlsafe_b64encode(msgspec.json.encode(TokenScope(partition, run, op))).decode().rstrip("=")
    return f"{TOKEN_VERSION}.{scope}.{ids.sign(secret, scope)}"


def token_scope(token: str) -> TokenScope:
    """What the token says it is for. Check it with ``verify_token`` before believing that."""
    given: Any = token  # whatever its annotation says
    if not isinstance(given, str):
        raise invalid_token()
    try:
        version, scope, _ = token.split(".")
        if version != TOKEN_VERSION or len(token) > LONGEST_TOKEN_CHARACTERS:
            raise invalid_token()
        padded = scope + "=" * (-len(scope) % 4)
        return msgspec.json.decode(base64.b64decode(padded, altchars=b"-_", validate=True), type=TokenScope)
    except (ValueError, binascii.Error, msgspec.MsgspecError):
        raise invalid_token() from None


def verify_token(token: str, secret: str) -> None:
    """Raise ``InvalidToken`` unless the token was made with this secret. Takes the same time for every wrong one."""
    _, scope, signature = token.split(".")
    if not ids.signature_matches(secret, scope, signature):
        raise invalid_token()


def invalid_token() -> InvalidToken:
    """One text for forged, damaged, used and late tokens, so that a guesser learns nothing."""
    return InvalidToken("this callback token is not valid, or its callback has been answered or has timed out")


def masked(text: str) -> str:
    """Text without callback tokens, for whoever is not to answer callbacks."""
    return TOKEN.sub("hf1.(token)", text)
