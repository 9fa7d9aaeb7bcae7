"""Callbacks: one answer from outside, by whoever holds the token."""

from __future__ import annotations

import asyncio
import base64
import binascii
import re
from collections.abc import Generator
from contextvars import copy_context
from typing import Any, Final, Generic, TypeVar, cast, overload

import msgspec
from msgspec import Struct

from holdfast import ids
from holdfast.codec.typed import codec_for
from holdfast.duration import Duration, seconds
from holdfast.errors import InvalidToken, SerializationError, StepTimeout
from holdfast.replay.activation import Activation
from holdfast.replay.earlier import name_of
from holdfast.workflows.callback_keys import MissingKey, key_id_of, signing_key
from holdfast.workflows.operations.signal import unfit_in
from holdfast.workflows.record import NO_VALUE, CallbackAnswer
from holdfast.workflows.scope import BodyScope, activation_for

T = TypeVar("T")

TOKEN_VERSION: Final = "hf1"  # noqa: S105 - a version, not a secret
KEYED_VERSION: Final = "hf2"
"""Of tokens that name the key by which they are signed, before their scope."""
LONGEST_TOKEN_CHARACTERS: Final = 4_000
MAILBOX_PREFIX: Final = "!callback/"

TOKEN: Final = re.compile(r"\bhf(?:1|2\.[A-Za-z0-9_-]+)\.[A-Za-z0-9_-]+\.[0-9a-f]{64}\b")
"""What a callback token looks like: whoever has one may answer the callback, so none is ever shown."""

_decode_answer = msgspec.json.Decoder(CallbackAnswer).decode


class Patience(Struct, frozen=True):
    """How long a callback may take, and how long it may be silent; ``None``: for ever."""

    timeout_seconds: float | None = None
    heartbeat_seconds: float | None = None

    def deadline(self, now: float) -> float | None:
        return None if self.timeout_seconds is None else now + self.timeout_seconds


class Callback(Generic[T]):
    """A promise that is kept from outside. Hand ``token`` out in a step, then await the callback.

    Awaiting it again answers the same. Code that gives up waiting (``asyncio.timeout``) may wait again later: the token
    stays good until there is an answer, or until the callback is late or silent. Both are watched for from its opening
    on, whatever the body does meanwhile.
    """

    def __init__(self, activation: Activation, op: str, token: str, type: Any, patience: Patience) -> None:
        self.token = token
        self._activation = activation
        self._op = op
        self._type = type
        self._patience = patience
        self._turn = asyncio.Lock()
        self._outcome: tuple[Any, Exception | None] | None = None
        self._deadline = patience.deadline(activation.loop.time())
        if patience != Patience() and activation.names_by_item:  # the old format watched only while the body waited
            activation.loop.start_task(self._settle(), path=f"{op}/", context=copy_context())

    def __await__(self) -> Generator[Any, Any, T]:
        return self.result().__await__()

    async def result(self) -> T:
        """The answer. Raises what the other side failed with, or ``StepTimeout`` when it, or its heartbeat, is late."""
        value, error = await self._settle()
        if error is not None:
            raise error
        return cast("T", value)

    async def _settle(self) -> tuple[Any, Exception | None]:
        async with self._turn:
            if self._outcome is None:
                self._outcome = await self._wait()
            return self._outcome

    async def _wait(self) -> tuple[Any, Exception | None]:
        mailbox = self._activation.mailboxes.of(MAILBOX_PREFIX + self._op)
        self._activation.awaits_message(f"callback:{name_of(self._op)}")
        patience = self._patience
        whole = asyncio.timeout_at(self._deadline)
        try:
            async with whole:
                while True:
                    async with asyncio.timeout(patience.heartbeat_seconds):
                        answer = _decode_answer(bytes(await mailbox.get()))
                    if answer.error is not None:
                        return None, self._activation.rebuild(answer.error)
                    if answer.value != NO_VALUE:
                        what = f"the answer to {self._op}"
                        return codec_for(self._type).decode_steady(bytes(answer.value), what), None
        except TimeoutError:
            self._activation.close_callback(self._op)
            late, silent = patience.timeout_seconds, patience.heartbeat_seconds
            told = f"had no answer within {late} s" if whole.expired() else f"gave no sign of life for {silent} s"
            return None, StepTimeout(f"callback {self._op} {told}")
        except SerializationError as unfit:
            return None, unfit_in(self._activation, unfit)


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
    try:
        token = make_token(scope.partition, scope.info.run, op, scope.secret)
    except MissingKey as missing:  # with another token the body would not go as it went
        raise activation.break_off(str(missing)) from missing
    return Callback(activation, op, token, type, Patience(_optional(timeout), _optional(heartbeat)))


def _optional(duration: Duration | None) -> float | None:
    return None if duration is None else seconds(duration)


# ── Tokens ──────────────────────────────────────────────────────────────────────────────────────────────────────────


class TokenScope(Struct, frozen=True, array_like=True):
    """What a token gives access to: one operation of one run of one execution."""

    partition: str
    run: int
    op: str


def make_token(partition: str, run: int, op: str, secret: str) -> str:
    """A token that only the holder of the execution's secret (192 random bits) can make, and of the key to which it is
    bound, if it is. Raises ``MissingKey``.
    """
    scope = base64.urlsafe_b64encode(msgspec.json.encode(TokenScope(partition, run, op))).decode().rstrip("=")
    key = key_id_of(secret)
    signed = f"{KEYED_VERSION}.{key}.{scope}" if key else f"{TOKEN_VERSION}.{scope}"
    return f"{signed}.{ids.sign(signing_key(secret), signed if key else scope)}"


def token_scope(token: str) -> TokenScope:
    """What the token says it is for. Check it with ``verify_token`` before believing that."""
    given: Any = token  # whatever its annotation says
    if not isinstance(given, str) or len(given) > LONGEST_TOKEN_CHARACTERS or not given.isascii():
        raise invalid_token()
    try:
        version, *key, scope, _ = token.split(".")
        if (version, len(key)) not in {(TOKEN_VERSION, 0), (KEYED_VERSION, 1)}:
            raise invalid_token()
        padded = scope + "=" * (-len(scope) % 4)
        return msgspec.json.decode(base64.b64decode(padded, altchars=b"-_", validate=True), type=TokenScope)
    except (ValueError, binascii.Error, msgspec.MsgspecError):
        raise invalid_token() from None


def verify_token(token: str, secret: str) -> None:
    """Raise ``InvalidToken`` unless the token was made with this secret, and with the key to which that is bound. Takes
    the same time for every wrong one.
    """
    signed, _, signature = token.rpartition(".")
    version, *key, scope = signed.split(".")
    try:
        signer = signing_key(secret)
    except MissingKey:
        raise invalid_token() from None
    if key != [each for each in [key_id_of(secret)] if each]:
        raise invalid_token()
    if not ids.signature_matches(signer, signed if version == KEYED_VERSION else scope, signature):
        raise invalid_token()


def invalid_token() -> InvalidToken:
    """One text for forged, damaged, used and late tokens, so that a guesser learns nothing."""
    return InvalidToken("this callback token is not valid, or its callback has been answered or has timed out")


def masked(text: str) -> str:
    """Text without callback tokens, for whoever is not to answer callbacks."""
    return TOKEN.sub("hf1.(token)", text)
