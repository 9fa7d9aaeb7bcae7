"""Units per second of keys and partitions, as buckets that fill by and by."""

from __future__ import annotations

import zlib
from collections.abc import Iterable

from msgspec import Struct

from holdfast.testing.hostile.rules import Capacity

MOST_BUCKETS = 50_000


class Load(Struct, frozen=True):
    """Units of one partition key, of a table, or of one of its indexes."""

    table: str
    index: str
    key: str
    units: float = 0.0


class Buckets:
    """Units left, of one kind: written or read. What a request takes is known when it was applied, so a bucket may
    fall below zero; then it takes no more requests before it has filled up again.
    """

    def __init__(self, rule: Capacity, units_per_second: float) -> None:
        self._rule = rule
        self._rate = units_per_second
        self._left: dict[tuple[str, str, str | int], tuple[float, float]] = {}

    def exhausted(self, load: Load, now: float) -> bool:
        """Whether its key or its partition has nothing left."""
        return any(self._at(name, now) <= 0 for name in self._names(load))

    def take(self, loads: Iterable[Load], now: float) -> None:
        """Take the units of these."""
        if len(self._left) > MOST_BUCKETS:
            self._left = {name: each for name, each in self._left.items() if self._at(name, now) < self._most}
        for load in loads:
            for name in self._names(load):
                self._left[name] = (self._at(name, now) - load.units, now)

    @property
    def _most(self) -> float:
        return self._rate * self._rule.burst_seconds

    def _at(self, name: tuple[str, str, str | int], now: float) -> float:
        left, since = self._left.get(name, (self._most, now))
        return min(self._most, left + (now - since) * self._rate)

    def _names(self, load: Load) -> Iterable[tuple[str, str, str | int]]:
        yield load.table, load.index, load.key
        yield load.table, load.index, zlib.crc32(load.key.encode()) % self._rule.partitions
