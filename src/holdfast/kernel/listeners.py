"""The callbacks in this process that wait for news of an entity."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from holdfast.kernel.outcomes import Conclusion

Ended = Callable[[Conclusion | None], object]
"""Called with the end, or with ``None`` if this process does not work on the entity any more: look elsewhere."""


class Watchers:
    """Callbacks by entity. Each is called once, when this process itself concludes the entity or releases it.

    ``hurried`` are called, besides, when this process begins to stop: they end waits for what others have.
    """

    __slots__ = ("_by_partition", "_ending", "hurried")

    def __init__(self) -> None:
        self._by_partition: dict[str, dict[object, Ended]] = {}
        self._ending = set[str]()
        self.hurried = set[Callable[[], object]]()

    def hurry(self) -> None:
        """This process begins to stop."""
        for hurried in tuple(self.hurried):
            hurried()

    def ends(self, partition: str) -> None:
        """The end of the entity is written from now on."""
        self._ending.add(partition)

    def is_ending(self, partition: str) -> bool:
        """Whether the end may be in the store, while this process has no answer: it may have been taken back since."""
        return partition in self._ending

    def add(self, partition: str, key: object, ended: Ended) -> None:
        """Call ``ended`` when the entity ends here; one callback per ``key``."""
        self._by_partition.setdefault(partition, {})[key] = ended

    def remove(self, partition: str, key: object) -> None:
        """Take an ``add`` back; it may have been called already."""
        watchers = self._by_partition.get(partition)
        if watchers is not None and watchers.pop(key, None) is not None and not watchers:
            del self._by_partition[partition]

    def notify(self, partition: str, conclusion: Conclusion | None) -> None:
        """The entity has ended, or is not ours any more."""
        self._ending.discard(partition)
        for ended in self._by_partition.pop(partition, {}).values():
            ended(conclusion)

    def notify_all(self) -> None:
        """No entity is worked on here any more."""
        for partition in list(self._by_partition):
            self.notify(partition, None)


class WakeListeners:
    """The callbacks in this process that are called at each wake-up of an entity."""

    __slots__ = ("_by_partition", "_for_all")

    def __init__(self) -> None:
        self._by_partition: dict[str, set[Callable[[], object]]] = {}
        self._for_all: list[Callable[[str | None], object]] = []

    def add_for_all(self, rung: Callable[[str | None], object]) -> None:
        """Call ``rung`` with the entity at each wake-up of any; with ``None`` if all of them were woken."""
        self._for_all.append(rung)

    def remove_for_all(self, rung: Callable[[str | None], object]) -> None:
        """Take an ``add_for_all`` back."""
        self._for_all.remove(rung)

    def add(self, partition: str, rung: Callable[[], object]) -> None:
        """Call ``rung`` at each wake-up of the entity."""
        self._by_partition.setdefault(partition, set()).add(rung)

    def remove(self, partition: str, rung: Callable[[], object]) -> None:
        """Take an ``add`` back."""
        listeners = self._by_partition.get(partition)
        if listeners is None:
            return
        listeners.discard(rung)
        if not listeners:
            del self._by_partition[partition]

    def heard(self, partition: str | None) -> None:
        """The entity was woken; ``None``: all of them were."""
        for each in self._for_all:
            each(partition)
        rung = self._by_partition.values() if partition is None else (self._by_partition.get(partition, ()),)
        for listener in [each for listeners in rung for each in listeners]:
            listener()

    def listen(self, partition: str) -> Listening:
        """Hear each wake-up of the entity from now on, until ``close``."""
        return Listening(self, partition)


class Listening:
    """The wake-ups of one entity, as a task waits for them."""

    __slots__ = ("_event", "_listeners", "_partition")

    def __init__(self, listeners: WakeListeners, partition: str) -> None:
        self._listeners = listeners
        self._partition = partition
        self._event = asyncio.Event()
        listeners.add(partition, self._event.set)

    async def next(self, patience_seconds: float) -> None:
        """Wait for the next wake-up, or as long as there is patience."""
        try:
            async with asyncio.timeout(patience_seconds):
                await self._event.wait()
        except TimeoutError:
            pass
        finally:
            self._event.clear()

    def close(self) -> None:
        """Hear no more."""
        self._listeners.remove(self._partition, self._event.set)
