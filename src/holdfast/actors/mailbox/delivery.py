"""A call on its way through an actor, and what its caller in this process is told."""

from __future__ import annotations

import asyncio
from typing import Final

from msgspec import Struct

from holdfast.actors.record import Call, timer_place

Answer = asyncio.Future["Outcome"]


class Replied(Struct, frozen=True):
    """The call was applied: ``data`` is the encoded result. Or the actor's code raised ``error``, and it was not."""

    data: bytes = b""
    error: Exception | None = None


class Elsewhere(Struct, frozen=True):
    """The call was not applied: the actor lives in another process. Send the call there."""


Outcome = Replied | Elsewhere
ELSEWHERE: Final = Elsewhere()


class Delivery(Struct, eq=False):
    """A call on its way through an actor. ``sort`` is its place in the inbox, ``timer`` the timer that made it and
    ``tick`` the time it is for, if it is to run at all; ``answer`` is the caller that waits for it in this process.
    ``prepared``: that it begins to run is durable. ``behind``: the look into the inbox that it comes after.
    """

    call: Call
    answer: Answer | None = None
    sort: str | None = None
    timer: str | None = None
    tick: int | None = None
    prepared: bool = False
    behind: int = 0

    @property
    def place(self) -> str:
        """What identifies it among the durable messages and timers of its actor; empty for a call from memory."""
        return self.sort or ("" if self.timer is None else timer_place(self.timer))

    @property
    def skips(self) -> bool:
        """Whether it is a timer's whose tick was missed, and is to be dropped."""
        return self.timer is not None and self.tick is None

    @property
    def is_awaited(self) -> bool:
        """Whether a caller in this process still waits for its outcome."""
        return self.answer is not None and not self.answer.done()

    def tell(self, outcome: Outcome) -> None:
        """Tell the caller that waits in this process."""
        if self.answer is not None and not self.answer.done():
            self.answer.set_result(outcome)

    def fail(self, error: Exception) -> None:
        """Tell the caller that waits in this process that something other than the call itself went wrong."""
        if self.answer is not None and not self.answer.done():
            self.answer.set_exception(error)
