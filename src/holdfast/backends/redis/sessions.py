"""The ``SessionStore`` port on Redis: each session is a hash that expires, each method is one script."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain
from typing import Final

from holdfast.backends.redis.connection import Connection

# A session, `KEYS[1]`:  u its end at the latest, in milliseconds by Redis   f<name> a field, as JSON
NOW: Final = """
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
"""

BEGIN: Final = (
    NOW
    + """
if redis.call('EXISTS', KEYS[1]) == 1 then return end
local idle_ms, lifetime_ms = tonumber(ARGV[1]), tonumber(ARGV[2])
redis.call('HSET', KEYS[1], 'u', now + lifetime_ms)
for i = 3, #ARGV, 2 do redis.call('HSET', KEYS[1], ARGV[i], ARGV[i + 1]) end
redis.call('PEXPIRE', KEYS[1], math.min(idle_ms, lifetime_ms))
"""
)

LOOK: Final = (
    NOW
    + """
local last = redis.call('HGET', KEYS[1], 'u')
if not last then return false end
local left = math.min(tonumber(ARGV[1]), tonumber(last) - now)
redis.call('PEXPIRE', KEYS[1], left)
if left <= 0 then return false end
return redis.call('HGETALL', KEYS[1])
"""
)

# A key keeps its time to live when fields of its hash change (EXPIRE in the documentation of Redis).
CHANGE: Final = """
if redis.call('EXISTS', KEYS[1]) == 0 then return 0 end
local sets = tonumber(ARGV[1])
for i = 2, 1 + 2 * sets, 2 do redis.call('HSET', KEYS[1], ARGV[i], ARGV[i + 1]) end
for i = 2 + 2 * sets, #ARGV do redis.call('HDEL', KEYS[1], ARGV[i]) end
return 1
"""

# A renamed key keeps its time to live too. If the new key exists already, a call whose answer was lost has moved it.
MOVE: Final = """
if redis.call('EXISTS', KEYS[2]) == 1 then return 1 end
if redis.call('EXISTS', KEYS[1]) == 0 then return 0 end
redis.call('RENAME', KEYS[1], KEYS[2])
return 1
"""

END: Final = "redis.call('DEL', KEYS[1])"


class RedisSessions:
    """See ``SessionStore``. All sessions are in one slot of a cluster, so that they can be renamed."""

    def __init__(self, connection: Connection, prefix: str) -> None:
        self._connection = connection
        self._prefix = f"{{{prefix}session}}:"
        self._begin, self._look, self._end = connection.script(BEGIN), connection.script(LOOK), connection.script(END)
        self._change, self._move = connection.script(CHANGE), connection.script(MOVE)

    async def begin(self, key: str, fields: Mapping[str, bytes], *, idle_ms: int, lifetime_ms: int) -> None:
        """See ``SessionStore.begin``."""
        await self._connection.run(self._begin, [self._prefix + key], idle_ms, lifetime_ms, *_pairs(fields))

    async def look(self, key: str, idle_ms: int) -> Mapping[str, bytes] | None:
        """See ``SessionStore.look``."""
        flat: list[bytes] | None = await self._connection.run(self._look, [self._prefix + key], idle_ms)
        if flat is None:
            return None
        found = zip(flat[::2], flat[1::2], strict=True)
        return {name[1:].decode(): value for name, value in found if name.startswith(b"f")}

    async def change(self, key: str, fields: Mapping[str, bytes], without: Sequence[str] = ()) -> bool:
        """See ``SessionStore.change``."""
        removed = (f"f{name}" for name in without if name not in fields)
        arguments = (len(fields), *_pairs(fields), *removed)
        return bool(await self._connection.run(self._change, [self._prefix + key], *arguments))

    async def move(self, key: str, new_key: str) -> bool:
        """See ``SessionStore.move``."""
        return bool(await self._connection.run(self._move, [self._prefix + key, self._prefix + new_key]))

    async def end(self, key: str) -> None:
        """See ``SessionStore.end``."""
        await self._connection.run(self._end, [self._prefix + key])


def _pairs(fields: Mapping[str, bytes]) -> chain[str | bytes]:
    return chain.from_iterable((f"f{name}", value) for name, value in fields.items())
