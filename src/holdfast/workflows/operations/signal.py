"""Signals: named values sent to an execution, first in, first out, before or after the body waits for them."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, TypeVar, overload

from holdfast.codec.typed import codec_for
from holdfast.duration import Duration, seconds
from holdfast.errors import SerializationError, WaitTimeout
from holdfast.keys import check_text
from holdfast.replay.earlier import SIGNAL_PREFIX
from holdfast.replay.tasks import timers_called
from holdfast.workflows.scope import activation_for, refused_in_queries

if TYPE_CHECKING:
    from holdfast.replay.activation import Activation

T = TypeVar("T")


@overload
async def signal(name: str, type: type[T], *, timeout: Duration | None = None) -> T: ...
@overload
async def signal(name: str, type: Any = Any, *, timeout: Duration | None = None) -> Any: ...
@refused_in_queries
async def signal(name: str, type: Any = Any, *, timeout: Duration | None = None) -> Any:
    """Wait for the next signal of this name and answer its value, decoded as ``type``.

    Signals sent before this point wait in order. ``WaitTimeout``, a ``TimeoutError``, if none comes in time. A value
    of another type raises ``SerializationError`` here, and the signal is used up; if the execution began under other
    code, which may have named that type, it is blocked instead (G13).
    """
    activation = activation_for("hf.signal")
    mailbox = activation.mailboxes.of(check_text("a signal's name", name))
    activation.awaits_message(SIGNAL_PREFIX + name)
    wait_seconds = None if timeout is None else seconds(timeout)
    try:
        with timers_called("signal-timeout"):
            async with asyncio.timeout(wait_seconds):
                value = await mailbox.get(type)
    except TimeoutError:
        raise WaitTimeout(f"no signal {name!r} came within {wait_seconds} s") from None
    try:
        return codec_for(type).decode_steady(bytes(value), f"the value of signal {name!r}")
    except SerializationError as unfit:
        raise unfit_in(activation, unfit) from None


def unfit_in(activation: Activation, error: SerializationError) -> Exception:
    """What to raise for a message of another type than the body names: other code may have meant that one (G13)."""
    return error if activation.past.is_of_this_code else activation.break_off(str(error))
