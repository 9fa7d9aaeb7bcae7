"""What processes share in addition to their home, sealed: values in a cache, and sessions.

Keys of a cache are made of arguments, and so of values: their digests replace them. A cached value that does not open,
or was never sealed, counts as missing.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Final

from msgspec.structs import replace

from holdfast.coordination.sealing.envelope import Envelope
from holdfast.errors import StoreUnusable
from holdfast.shared import Cache, Seen, SessionStore, Shared

MOVED: Final = "\n@"
"""The prefix of a field's name that says under which key the session was before."""


def sealed_shared(shared: Shared, envelope: Envelope) -> Shared:
    """The same home, in which every shared value is sealed."""
    return Shared(
        None if shared.cache is None else SealedCache(shared.cache, envelope),
        None if shared.sessions is None else SealedSessions(shared.sessions, envelope),
    )


class SealedCache:
    """A cache that sees sealed values only."""

    def __init__(self, cache: Cache, envelope: Envelope) -> None:
        self._cache = cache
        self._envelope = envelope

    async def look(self, group: str, key: str, token: str, fill_ms: int) -> Seen:
        """See ``Cache.look``."""
        seen = await self._cache.look(group, _hidden(group, key), token, fill_ms)
        try:
            return self._opened(seen, group, key)
        except StoreUnusable:
            await self._cache.forget(group, _hidden(group, key))
        return self._opened(await self._cache.look(group, _hidden(group, key), token, fill_ms), group, key)

    def _opened(self, seen: Seen, group: str, key: str) -> Seen:
        if seen.value is None:
            return seen
        return replace(seen, value=self._envelope.open_sealed(seen.value, _place(group, key)))

    async def fill(
        self, group: str, key: str, token: str, value: bytes, *, fresh_ms: int, keep_ms: int, version: int | None = None
    ) -> bool:
        """See ``Cache.fill``."""
        hidden = self._envelope.seal(value, _place(group, key))
        return await self._cache.fill(
            group, _hidden(group, key), token, hidden, fresh_ms=fresh_ms, keep_ms=keep_ms, version=version
        )

    async def give_up(self, group: str, key: str, token: str) -> None:
        """See ``Cache.give_up``."""
        await self._cache.give_up(group, _hidden(group, key), token)

    async def forget(self, group: str, key: str, *, below: int | None = None, keep_ms: int = 0) -> None:
        """See ``Cache.forget``."""
        await self._cache.forget(group, _hidden(group, key), below=below, keep_ms=keep_ms)

    async def forget_all(self, group: str) -> None:
        """See ``Cache.forget_all``."""
        await self._cache.forget_all(group)

    async def close(self) -> None:
        """See ``Cache.close``."""
        await self._cache.close()


class SealedSessions:
    """Sessions that see sealed values only: each is sealed for its name, and for the key of the session at that time.

    A session that moves takes along its earlier key, sealed for the new one. So its earlier values open there, and in
    no other session.
    """

    def __init__(self, sessions: SessionStore, envelope: Envelope) -> None:
        self._sessions = sessions
        self._envelope = envelope

    async def begin(self, key: str, fields: Mapping[str, bytes], *, idle_ms: int, lifetime_ms: int) -> None:
        """See ``SessionStore.begin``."""
        await self._sessions.begin(key, self._sealed(key, fields), idle_ms=idle_ms, lifetime_ms=lifetime_ms)

    async def look(self, key: str, idle_ms: int) -> Mapping[str, bytes] | None:
        """See ``SessionStore.look``."""
        found = await self._sessions.look(key, idle_ms)
        if found is None:
            return None
        keys = [key]
        while (before := found.get(MOVED + keys[-1])) is not None:
            keys.append(self._envelope.open_sealed(before, _session_place(keys[-1], MOVED)).decode())
        return {name: self._opened(value, keys, name) for name, value in found.items() if not name.startswith(MOVED)}

    def _opened(self, value: bytes, keys: Sequence[str], name: str) -> bytes:
        for key in keys[:-1]:
            with suppress(StoreUnusable):
                return self._envelope.open_value(value, _session_place(key, name))
        return self._envelope.open_value(value, _session_place(keys[-1], name))

    async def change(self, key: str, fields: Mapping[str, bytes], without: Sequence[str] = ()) -> bool:
        """See ``SessionStore.change``."""
        return await self._sessions.change(key, self._sealed(key, fields), without)

    async def move(self, key: str, new_key: str) -> bool:
        """See ``SessionStore.move``. The mark is written first, and does no harm if nothing follows."""
        before = self._envelope.seal(key.encode(), _session_place(new_key, MOVED))
        await self._sessions.change(key, {MOVED + new_key: before})  # without a session, `move` gives the answer
        return await self._sessions.move(key, new_key)

    async def end(self, key: str) -> None:
        """See ``SessionStore.end``."""
        await self._sessions.end(key)

    def _sealed(self, key: str, fields: Mapping[str, bytes]) -> Mapping[str, bytes]:
        return {name: self._envelope.seal(value, _session_place(key, name)) for name, value in fields.items()}


def _hidden(group: str, key: str) -> str:
    return hashlib.sha256(f"{group}\n{key}".encode()).hexdigest()


def _place(group: str, key: str) -> str:
    return f"\ncache\n{group}\n{key}"


def _session_place(key: str, name: str) -> str:
    return f"\nsession\n{key}\n{name}"
