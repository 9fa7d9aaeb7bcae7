"""Debounce: the last of several requests counts, and the workflow starts once they have stopped."""

from __future__ import annotations

from typing import ClassVar

from holdfast import ids
from holdfast.actors.timers import timer
from holdfast.clock import MS_PER_SECOND
from holdfast.patterns.starts.keyed import Starter


class Debouncer(Starter):
    """Holds the latest input until its key has been quiet, or has waited for the longest time.

    ``id`` is that of the execution that will start; empty if nothing waits. ``first_ms`` is when the first request of
    the round came.
    """

    quiet_seconds: ClassVar[float]
    longest_seconds: ClassVar[float]

    id: str = ""
    input: str = ""
    first_ms: int = 0

    async def ask(self, input: str) -> str:
        asked_ms = self.now_ms
        if not self.id:
            self.id, self.first_ms = ids.new_ordered_id(asked_ms), asked_ms
        self.input = input
        waited_seconds = (asked_ms - self.first_ms) / MS_PER_SECOND
        self.begin.after(max(0.0, min(self.quiet_seconds, self.longest_seconds - waited_seconds)))
        return self.id

    @timer
    async def begin(self) -> None:
        """Start the execution that was promised."""
        await self.launch(self.id, self.input)
        self.id, self.input, self.first_ms = "", "", 0
