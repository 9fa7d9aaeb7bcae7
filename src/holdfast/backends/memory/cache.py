"""The reference model of the ``Cache`` port: dictionaries. Caches that share a ``CacheData`` are like processes."""

from __future__ import annotations

from collections.abc import Callable

from msgspec import Struct

from holdfast.shared import Seen


class Entry(Struct):
    """The entry of a key. Times are milliseconds by the cache's clock."""

    value: bytes | None = None
    version: int | None = None
    fresh_until: int = 0
    keep_until: int = 0
    token: str | None = None
    token_until: int = 0
    floor: int | None = None
    floor_until: int = 0


class CacheData:
    """What memory caches share."""

    def __init__(self, now_ms: Callable[[], int]) -> None:
        self.now_ms = now_ms
        self.groups: dict[str, dict[str, Entry]] = {}


class MemoryCache:
    """See ``Cache``. It never fails."""

    def __init__(self, data: CacheData) -> None:
        self._data = data

    def _entry(self, group: str, key: str) -> tuple[Entry, int]:
        now = self._data.now_ms()
        entry = self._data.groups.setdefault(group, {}).setdefault(key, Entry())
        if entry.value is not None and entry.keep_until <= now:
            entry.value = entry.version = None
        if entry.floor is not None and entry.floor_until <= now:
            entry.floor = None
        return entry, now

    async def look(self, group: str, key: str, token: str, fill_ms: int) -> Seen:
        """See ``Cache.look``."""
        entry, now = self._entry(group, key)
        if entry.value is None:
            fresh_ms = keep_ms = 0
        else:
            fresh_ms, keep_ms = entry.fresh_until - now, entry.keep_until - now
        granted = fresh_ms <= 0 and (entry.token in {None, token} or entry.token_until <= now)
        if granted:
            entry.token, entry.token_until = token, now + fill_ms
        return Seen(entry.value, fresh_ms, keep_ms, granted)

    async def fill(
        self, group: str, key: str, token: str, value: bytes, *, fresh_ms: int, keep_ms: int, version: int | None = None
    ) -> bool:
        """See ``Cache.fill``."""
        entry, now = self._entry(group, key)
        if entry.token != token:
            return False
        entry.token = None
        if entry.floor is not None and (version is None or version < entry.floor):
            return False
        entry.value, entry.version = value, version
        entry.fresh_until, entry.keep_until = now + fresh_ms, now + keep_ms
        return True

    async def give_up(self, group: str, key: str, token: str) -> None:
        """See ``Cache.give_up``."""
        entry, _ = self._entry(group, key)
        if entry.token == token:
            entry.token = None

    async def forget(self, group: str, key: str, *, below: int | None = None, keep_ms: int = 0) -> None:
        """See ``Cache.forget``."""
        entry, now = self._entry(group, key)
        if below is None:
            entry.value = entry.version = entry.token = None
            return
        entry.floor, entry.floor_until = max(below, entry.floor or 0), max(now + keep_ms, entry.floor_until)
        if entry.version is None or entry.version < below:
            entry.value = entry.version = None

    async def forget_all(self, group: str) -> None:
        """See ``Cache.forget_all``."""
        for entry in self._data.groups.get(group, {}).values():
            entry.value = entry.version = entry.token = None

    async def close(self) -> None:
        """See ``Cache.close``. The data stay with their ``CacheData``."""
