"""Who in this process waits for which entity to end."""

from __future__ import annotations

from collections.abc import Callable

from holdfast.kernel.program import Conclusion

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
