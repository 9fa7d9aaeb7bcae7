"""A connection to Redis: it runs scripts and returns answers; every other outcome is ``StoreUnavailable``."""

from __future__ import annotations

from typing import Any, Final

from redis.asyncio import Redis
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.commands.core import AsyncScript
from redis.exceptions import RedisError

from holdfast.errors import ConfigurationError, StoreUnavailable
from holdfast.texts import told_url

CONNECT_SECONDS: Final = 1.0
ANSWER_SECONDS: Final = 1.0
"""A cache that is slower than its source is no use: the caller then uses the source."""

Argument = str | bytes | int


class Connection:
    """A pool of connections, made when they are needed, on the event loop that first uses it."""

    def __init__(self, url: str) -> None:
        try:
            self._client: Redis = Redis.from_url(
                url,
                socket_connect_timeout=CONNECT_SECONDS,
                socket_timeout=ANSWER_SECONDS,
                retry=Retry(NoBackoff(), 0),  # the caller decides whether to try again
            )
        except ValueError:
            # The URL parser's message may quote the password.
            raise ConfigurationError(f"{told_url(url)!r} names no Redis; write redis://host:6379/0") from None

    def script(self, text: str) -> AsyncScript:
        """A script to ``run``. Redis keeps it under its digest, and gets it again if it was evicted."""
        return self._client.register_script(text)

    async def run(self, script: AsyncScript, keys: list[str], *arguments: Argument) -> Any:
        """Run a whole script, and return its result. Raises ``StoreUnavailable``: it may or may not have run."""
        try:
            return await script(keys=keys, args=arguments)
        except (RedisError, OSError, TimeoutError) as error:
            raise StoreUnavailable(f"Redis did not answer: {type(error).__name__}") from error

    async def close(self) -> None:
        """Close every connection."""
        await self._client.aclose()
