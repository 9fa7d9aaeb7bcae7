"""Who in this process waits for news of which entity."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from holdfast.kernel.model import Conclusion

Ended = Callable[[Conclusion | None], object]
"""Called with the end, or with ``None`` if this process does not work on the entity any more: look elsewhere."""


class Watchers:
    """Callbacks by entity. Each is called once, when this process itself concludes the entity or lets go of it."""

    __slots__ = ("_by_partition",)

    def __init__(self) -> None:
        self._by_partition: dict[str, dict[object, Ended]] = {}

    def add(self, partition: str, key: object, ended: Ended) -> None:
        """Call ``ended`` when the entity ends here; one callback per ``key``."""
        self._by_partition.setdefault(partition, {})[key] = ended

    def remove(self, partition: str, key: object) -> None:
        """Take an ``add`` back; it may have been called already."""
        watchers = self._by_partition.get(partition)
        if watchers is not None and watchers.pop(key, None) is not None and not watchers:
            del self._by_partition[partition]

    def tell(self, partition: str, conclusion: Conclusion | None) -> None:
        """The entity has ended, or is not ours any more."""
        for ended in self._by_partition.pop(partition, {}).values():
            ended(conclusion)


class Rings:
    """Who waits for a sign that an entity may have moved, whoever moves it."""

    __slots__ = ("_waiting",)

    def __init__(self) -> None:
        self._waiting: dict[str, set[asyncio.Event]] = {}

    def heard(self, partition: str | None) -> None:
        """Somebody rang for the entity; ``None``: for all of them."""
        waiting = self._waiting.values() if partition is None else (self._waiting.get(partition, ()),)
        for each in waiting:
            for event in each:
                event.set()

    @staticmethod
    async def next(event: asyncio.Event, patience_seconds: float) -> None:
        """Wait for the next ring, or as long as there is patience."""
        try:
            async with asyncio.timeout(patience_seconds):
                await event.wait()
        except TimeoutError:
            pass
        finally:
            event.clear()

    def listen(self, partition: str) -> asyncio.Event:
        """An event that is set with every ring from now on; take it back with ``leave``."""
        event = asyncio.Event()
        self._waiting.setdefault(partition, set()).add(event)
        return event

    def leave(self, partition: str, event: asyncio.Event) -> None:
        """Hear no more."""
        waiting = self._waiting.get(partition, set())
        waiting.discard(event)
        if not waiting:
            self._waiting.pop(partition, None)
