"""The ``Cache`` port on Redis: each entry is a hash, each group has a generation, each method is one script."""

from __future__ import annotations

from typing import Final

from holdfast import ids
from holdfast.backends.redis.connection import Connection
from holdfast.shared import Seen

# An entry, `KEYS[1]`:  g its generation   v value  w version  f fresh until  k kept until   t token  u token until
#                       n the lowest version wanted      (times in milliseconds by Redis)
# The generation of its group, `KEYS[2]`, is a random word, so that one that was lost never comes back.
NOW: Final = """
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local function keep(milliseconds)
  if redis.call('PTTL', KEYS[1]) < tonumber(milliseconds) then redis.call('PEXPIRE', KEYS[1], milliseconds) end
end
"""

LOOK: Final = (
    NOW
    + """
local token, fill_ms, fresh_generation = ARGV[1], ARGV[2], ARGV[3]
local generation = redis.call('GET', KEYS[2])
if not generation then
  generation = fresh_generation
  redis.call('SET', KEYS[2], generation)
end
local e = redis.call('HMGET', KEYS[1], 'g', 'v', 'f', 'k', 't', 'u')
local ours = e[1] == generation
if e[1] and not ours then redis.call('HDEL', KEYS[1], 'g', 'v', 'w', 'f', 'k', 't', 'u') end
local value, fresh, left = false, 0, 0
if ours and e[2] and tonumber(e[4]) > now then
  value, fresh, left = e[2], tonumber(e[3]) - now, tonumber(e[4]) - now
end
if fresh > 0 or (ours and e[5] and e[5] ~= token and tonumber(e[6]) > now) then return {value, fresh, left, 0} end
redis.call('HSET', KEYS[1], 'g', generation, 't', token, 'u', now + fill_ms)
keep(fill_ms)
return {value, fresh, left, 1}
"""
)

FILL: Final = (
    NOW
    + """
local token, value, fresh_ms, keep_ms, version = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5]
local e = redis.call('HMGET', KEYS[1], 'g', 't', 'n')
if not e[1] or e[1] ~= redis.call('GET', KEYS[2]) or e[2] ~= token then return 0 end
redis.call('HDEL', KEYS[1], 't', 'u')
if e[3] and (version == '' or tonumber(version) < tonumber(e[3])) then return 0 end
redis.call('HSET', KEYS[1], 'g', e[1], 'v', value, 'w', version, 'f', now + fresh_ms, 'k', now + keep_ms)
keep(keep_ms)
return 1
"""
)

GIVE_UP: Final = "if redis.call('HGET', KEYS[1], 't') == ARGV[1] then redis.call('HDEL', KEYS[1], 't', 'u') end"

FORGET: Final = "redis.call('HDEL', KEYS[1], 'g', 'v', 'w', 'f', 'k', 't', 'u')"

FORGET_BELOW: Final = (
    NOW
    + """
local below, keep_ms = tonumber(ARGV[1]), ARGV[2]
local e = redis.call('HMGET', KEYS[1], 'w', 'n')
if not e[2] or tonumber(e[2]) < below then redis.call('HSET', KEYS[1], 'n', ARGV[1]) end
if not e[1] or e[1] == '' or tonumber(e[1]) < below then redis.call('HDEL', KEYS[1], 'v', 'w', 'f', 'k') end
keep(keep_ms)
"""
)

FORGET_ALL: Final = "redis.call('SET', KEYS[1], ARGV[1])"


class RedisCache:
    """See ``Cache``. Every key begins with ``prefix``; those of a group are in one slot of a cluster."""

    def __init__(self, connection: Connection, prefix: str) -> None:
        self._connection = connection
        self._prefix = prefix
        self._look, self._fill = connection.script(LOOK), connection.script(FILL)
        self._give_up, self._forget = connection.script(GIVE_UP), connection.script(FORGET)
        self._forget_below, self._forget_all = connection.script(FORGET_BELOW), connection.script(FORGET_ALL)

    def _keys(self, group: str, key: str) -> list[str]:
        return [f"{self._prefix}{{{group}}}:{key}", f"{self._prefix}{{{group}}}"]

    async def look(self, group: str, key: str, token: str, fill_ms: int) -> Seen:
        """See ``Cache.look``."""
        value, fresh_ms, keep_ms, may_fill = await self._connection.run(
            self._look, self._keys(group, key), token, fill_ms, ids.new_id()
        )
        return Seen(value, fresh_ms, keep_ms, bool(may_fill))

    async def fill(
        self, group: str, key: str, token: str, value: bytes, *, fresh_ms: int, keep_ms: int, version: int | None = None
    ) -> bool:
        """See ``Cache.fill``."""
        told = "" if version is None else version
        return bool(
            await self._connection.run(self._fill, self._keys(group, key), token, value, fresh_ms, keep_ms, told)
        )

    async def give_up(self, group: str, key: str, token: str) -> None:
        """See ``Cache.give_up``."""
        await self._connection.run(self._give_up, self._keys(group, key), token)

    async def forget(self, group: str, key: str, *, below: int | None = None, keep_ms: int = 0) -> None:
        """See ``Cache.forget``."""
        keys = self._keys(group, key)
        if below is None:
            await self._connection.run(self._forget, keys)
        else:
            await self._connection.run(self._forget_below, keys, below, keep_ms)

    async def forget_all(self, group: str) -> None:
        """See ``Cache.forget_all``."""
        await self._connection.run(self._forget_all, self._keys(group, "")[1:], ids.new_id())

    async def close(self) -> None:
        """See ``Cache.close``."""
        await self._connection.close()
