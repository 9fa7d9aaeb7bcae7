"""An attempt to handle a call, a message, a tick or an event, as a tracer is told of it: once it is durable (G7)."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from holdfast.tracing import within

if TYPE_CHECKING:
    from holdfast.kernel.runtime import Runtime


NO_CONTEXT: Final = nullcontext()


class Handling(Struct, frozen=True, kw_only=True):
    """An attempt that begins, at ``began`` (milliseconds). ``id`` is the call's, ``trace`` the context that it carries.
    ``began`` tells it from an attempt that was not written, or was made before the message was parked. ``place`` tells
    a message from another one of the same id, which its sender has sent again; it is empty for a call from memory.
    """

    partition: str
    place: str = ""
    method: str
    id: str
    trace: str
    attempt: int
    began: int
    reads: bool = False


class Handled(Struct, frozen=True):
    """An attempt that has ended, at ``at`` (milliseconds): ``done``, ``failed``, ``retrying``, ``halted``, or
    ``parked``. ``error`` is the type of its error.
    """

    handling: Handling
    at: int
    outcome: str
    error: str = ""


def surrounding(trace: str, handling: Handling | None, runtime: Runtime) -> AbstractContextManager[None]:
    """The context in which users' code handles what carries ``trace``."""
    tracer = runtime.telemetry.tracer
    if handling is None or tracer is None:
        return within(trace) if trace else NO_CONTEXT
    return tracer.handling(handling)


def tell(handled: Handled, runtime: Runtime) -> None:
    """It is durable now."""
    if (tracer := runtime.telemetry.tracer) is not None:
        runtime.telemetry.trace(tracer.handled, handled)
