"""A bus in memory, for tests: the accepted events can be inspected."""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.bus import BusEvent, NotTaken, Unfit


class MemoryBus:
    """A bus that accepts everything, and delivers nothing.

    >>> import asyncio
    >>> bus = MemoryBus()
    >>> asyncio.run(bus.put([BusEvent("holdfast.shop", "OrderPlaced", b"{}")]))
    [None]
    >>> bus.taken[0].type
    'OrderPlaced'
    """

    def __init__(self, taken: list[BusEvent] | None = None) -> None:
        self.taken: list[BusEvent] = [] if taken is None else taken

    async def put(self, events: Sequence[BusEvent]) -> Sequence[NotTaken | Unfit | None]:
        """See ``EventBus.put``."""
        self.taken += events
        return [None] * len(events)
