"""Throttle: the first request of a key starts the workflow, and those that come too soon after it are left out."""

from __future__ import annotations

from typing import ClassVar

from holdfast import ids
from holdfast.actors.timers import timer
from holdfast.clock import MS_PER_SECOND
from holdfast.patterns.starts.keyed import Starter


class Throttler(Starter):
    """Remembers the latest start of its key for as long as it leaves others out."""

    every_ms: ClassVar[int]

    until_ms: int = 0

    async def ask(self, input: str) -> str:
        asked_ms = self.now_ms
        if asked_ms < self.until_ms:
            return ""
        self.until_ms = asked_ms + self.every_ms
        id = ids.new_ordered_id(asked_ms)
        await self.launch(id, input)
        self.forget.after(self.every_ms / MS_PER_SECOND)
        return id

    @timer
    async def forget(self) -> None:
        """Leave out no request any more."""
        self.until_ms = 0
