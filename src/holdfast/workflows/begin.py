"""A delayed start: the body begins when it is due, even if it was sent something, or looked at, before."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from holdfast.codec.typed import codec_for
from holdfast.replay.program import AnyEffect, Arrival, Effect, Timed
from holdfast.workflows.live import Live
from holdfast.workflows.scope import activation_for

if TYPE_CHECKING:
    from holdfast.replay.requests import Operation

BEGIN: Final = "!begin"
"""The operation that comes before those of the body; no name that users give can look like it."""


async def until_due(starts_at: int) -> None:
    """Wait for the time (milliseconds) at which the body is to begin. It is recorded once, as any operation is."""
    activation = activation_for("a delayed start")
    await activation.request("delay", BEGIN, Begin(starts_at), decode=codec_for(type(None)).decode)


class Begin(Struct, frozen=True):
    """Let the body begin at ``due_at``, or at once if that has passed."""

    due_at: int

    def effect(self, operation: Operation, live: Live, /) -> AnyEffect:
        return Effect(operation.id, partial(self._look, operation, live))

    async def _look(self, operation: Operation, live: Live) -> Arrival | Timed:
        if live.now_ms() < self.due_at:
            return Timed(self.due_at, operation.id)
        return live.done(operation, b"null", copy=None)

    def withdrawn(self, _operation: Operation, _live: Live, /) -> Sequence[AnyEffect]:
        return ()
