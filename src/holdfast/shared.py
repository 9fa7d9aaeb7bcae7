"""The ports of what processes share in addition to their home: a cache, and sessions. Either may be missing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from msgspec import Struct


class Seen(Struct, frozen=True):
    """The entry of a key in a cache: the value, or ``None``; and how long, in milliseconds, it stays fresh (negative:
    how long it has been stale) and is kept at all. ``may_fill``: the reader is to load a newer one.
    """

    value: bytes | None
    fresh_ms: int
    keep_ms: int
    may_fill: bool


class Cache(Protocol):
    """Values that can be computed again, shared by processes, and never overtaken by a slow reader.

    Keys live in groups. Time is the cache's own. Every entry may be gone at any moment. Every method raises
    ``StoreUnavailable`` if the cache does not answer, and each may be repeated.
    """

    async def look(self, group: str, key: str, token: str, fill_ms: int) -> Seen:
        """The entry; if it is not fresh and has no filler, ``token`` may now fill it, for ``fill_ms``."""
        ...

    async def fill(
        self, group: str, key: str, token: str, value: bytes, *, fresh_ms: int, keep_ms: int, version: int | None = None
    ) -> bool:
        """Store the value if ``token`` still may, and no higher version was requested meanwhile."""
        ...

    async def give_up(self, group: str, key: str, token: str) -> None:
        """Let another process fill it."""
        ...

    async def forget(self, group: str, key: str, *, below: int | None = None, keep_ms: int = 0) -> None:
        """Drop the value, and refuse a fill under way; with ``below``, only values of a lower version, now
        and for ``keep_ms``.
        """
        ...

    async def forget_all(self, group: str) -> None:
        """``forget`` every key of the group."""
        ...

    async def close(self) -> None:
        """Close it."""
        ...


class SessionStore(Protocol):
    """Sessions: named fields that expire together, ``idle_ms`` after they were last read, and at the latest
    ``lifetime_ms`` after they began. Keys are digests of unguessable ids, so they are not shared. Each method may be
    repeated.
    """

    async def begin(self, key: str, fields: Mapping[str, bytes], *, idle_ms: int, lifetime_ms: int) -> None:
        """Start a session under a new key."""
        ...

    async def look(self, key: str, idle_ms: int) -> Mapping[str, bytes] | None:
        """Its fields, if it exists; it then lasts from now on, less up to a tenth of ``idle_ms``."""
        ...

    async def change(self, key: str, fields: Mapping[str, bytes], without: Sequence[str] = ()) -> bool:
        """Set and remove fields, and leave the rest, and its end, as they are; false if it does not exist."""
        ...

    async def move(self, key: str, new_key: str) -> bool:
        """Give it another new key, and leave the rest as it is; false if it does not exist."""
        ...

    async def end(self, key: str) -> None:
        """Remove it."""
        ...


class Shared(Struct, frozen=True):
    """What processes share in addition to their home. Either may be missing."""

    cache: Cache | None = None
    sessions: SessionStore | None = None
