"""Task tokens: a Task that ends when the holder of its token says so. A token is that of a callback (G1, G11).

It names one operation of one run, is signed, and is used up by the first answer or by the end of the Task's time.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

import msgspec

from holdfast.asl.errors import TIMEOUT, HeartbeatMissed, StatesError
from holdfast.asl.resources import Limits
from holdfast.replay.earlier import name_of
from holdfast.replay.tasks import timers_closing
from holdfast.workflows.callback_keys import MissingKey
from holdfast.workflows.callback_tokens import make_token, token_scope
from holdfast.workflows.record import MAILBOX_PREFIX, NO_VALUE, CallbackAnswer
from holdfast.workflows.renewed_callbacks import RENEWED

if TYPE_CHECKING:
    from holdfast.replay.activation import Activation

OPERATION: Final = "token"

_decode: Final = msgspec.json.Decoder(CallbackAnswer).decode


class Renewed(Exception):
    """The execution was redriven: the Task is attempted again, and that is none of its retries."""


def open_token(activation: Activation) -> str:
    """A token for the Task that is being attempted. It is good at once, and the same on every replay."""
    op = activation.loop.current_path(OPERATION)
    scope = activation.context
    try:
        return make_token(scope.partition, scope.run, op, scope.secret)
    except MissingKey as missing:  # with another token the body would not go as it went
        raise activation.break_off(str(missing)) from missing


async def answer_to(
    activation: Activation, token: str, limits: Limits, begun: Callable[[], object] | None = None
) -> Any:
    """What the holder of the token answers. Raises ``StatesError``: what it failed with, or that it is late or silent.

    Raises ``Renewed`` after a redrive: this token takes no answer any more.

    ``begun`` is called at the first sign of life; the heartbeat counts from then on if it is given, else from now.
    """
    op = token_scope(token).op
    mailbox = activation.mailboxes.of(MAILBOX_PREFIX + op)
    activation.awaits_message(f"callback:{name_of(op)}")
    waits = begun is not None
    loop = activation.loop
    whole = asyncio.timeout(None)
    try:
        async with whole:
            _limit(whole, op, None if limits.timeout_seconds is None else loop.time() + limits.timeout_seconds)
            while True:
                async with asyncio.timeout(None) as silence:
                    beat = None if waits else limits.heartbeat_seconds
                    _limit(silence, op, None if beat is None else loop.time() + beat)
                    answer = _decode(bytes(await mailbox.get()))
                if begun is not None and waits:
                    begun()
                    waits = False
                if answer.error is not None and answer.error.type == RENEWED:
                    raise Renewed
                if answer.error is not None:
                    raise _failure(activation.rebuild(answer.error))
                if answer.value != NO_VALUE:
                    return json.loads(bytes(answer.value))
    except TimeoutError as late:  # the cause, by which a retry knows that a timer has to begin again
        activation.close_callback(op)
        raise (StatesError(TIMEOUT) if whole.expired() else HeartbeatMissed()) from late


def _limit(limit: asyncio.Timeout, op: str, when: float | None) -> None:
    with timers_closing(op):
        limit.reschedule(when)


def _failure(error: Exception) -> StatesError:
    """What SendTaskFailure was given: an error and a cause, either of which may be missing."""
    name, cause = (*error.args, None, None)[:2]
    failed = StatesError(name or None, cause or None)
    failed.__cause__ = error
    return failed
