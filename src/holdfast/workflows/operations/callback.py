"""Callbacks: one answer from outside, by a caller that has the token."""

from __future__ import annotations

import asyncio
from collections.abc import Generator
from contextvars import copy_context
from typing import Any, Generic, TypeVar, cast, overload

import msgspec
from msgspec import Struct

from holdfast.codec.typed import codec_for
from holdfast.duration import Duration, seconds
from holdfast.errors import SerializationError, StepTimeout
from holdfast.replay.activation import Activation
from holdfast.replay.earlier import name_of
from holdfast.replay.tasks import timers_closing
from holdfast.workflows.callback_keys import MissingKey
from holdfast.workflows.callback_tokens import make_token
from holdfast.workflows.operations.signal import unfit_in
from holdfast.workflows.record import MAILBOX_PREFIX, NO_VALUE, CallbackAnswer
from holdfast.workflows.scope import BodyScope, activation_for

T = TypeVar("T")

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
        whole = asyncio.timeout(None)
        try:
            async with whole:
                self._limit(whole, self._deadline)
                while True:
                    async with asyncio.timeout(None) as silence:
                        self._limit(silence, self._silent_at())
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

    def _limit(self, limit: asyncio.Timeout, when: float | None) -> None:
        with timers_closing(self._op):
            limit.reschedule(when)

    def _silent_at(self) -> float | None:
        silence = self._patience.heartbeat_seconds
        return None if silence is None else self._activation.loop.time() + silence


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
    """Open a callback: an answer of ``type`` that comes once, from a caller that has ``token``.

    ``timeout`` counts from here, ``heartbeat`` from the last sign of life (``app.callback(token).heartbeat()``). The
    token is valid at once, is the same on every replay, and is used up by the first answer or by the timeout.
    """
    activation = activation_for("hf.callback")
    op = activation.loop.current_path(name)
    scope: BodyScope = activation.context
    try:
        token = make_token(scope.partition, scope.run, op, scope.secret)
    except MissingKey as missing:  # with another token the body would not go as it went
        raise activation.break_off(str(missing)) from missing
    return Callback(activation, op, token, type, Patience(_optional(timeout), _optional(heartbeat)))


def _optional(duration: Duration | None) -> float | None:
    return None if duration is None else seconds(duration)
