"""Redis, as a cache and for sessions only: it stores nothing that must survive.

Every change is one Lua script, which Redis runs whole or not at all, by Redis's own clock (see "Scripting with Lua" and
the page of the command TIME in its documentation). No decision rests on an answer that may be out of date.
"""

from __future__ import annotations

from holdfast.backends.redis.cache import RedisCache
from holdfast.backends.redis.connection import Connection
from holdfast.backends.redis.sessions import RedisSessions
from holdfast.shared import Shared

__all__ = ["Connection", "RedisCache", "RedisSessions", "open_redis"]


def open_redis(url: str, prefix: str) -> Shared:
    """A cache and sessions on the Redis that ``url`` names (``redis://host:6379/0``); it connects when first used."""
    connection = Connection(url)
    return Shared(RedisCache(connection, prefix), RedisSessions(connection, prefix))
