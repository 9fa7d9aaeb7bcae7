"""Redis, as a cache and for sessions only: nothing that must survive is kept here.

Every change is one Lua script, which Redis runs whole or not at all, by Redis's own clock (see "Scripting with Lua" and
the page of the command TIME in its documentation). No decision is taken on an answer that may be out of date by then.
"""

from __future__ import annotations

from holdfast.backends.redis.cache import RedisCache
from holdfast.backends.redis.connection import Connection

__all__ = ["Connection", "RedisCache", "open_redis_cache"]


def open_redis_cache(url: str, prefix: str) -> RedisCache:
    """A cache on the Redis that ``url`` names (``redis://host:6379/0``). It connects when it is first used."""
    return RedisCache(Connection(url), prefix)
