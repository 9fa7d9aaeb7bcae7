"""A real Redis."""

from __future__ import annotations

from tests.redis_server import redis_server, shared_redis

__all__ = ["redis_server", "shared_redis"]
