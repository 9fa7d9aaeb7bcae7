"""Opens a home, or a cache that processes share, by its URL. Only the backend in use is loaded."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from holdfast.clock import Clock
from holdfast.errors import ConfigurationError
from holdfast.ports import Home
from holdfast.shared import Shared
from holdfast.texts import told_url


async def open_home(
    url: str, *, clock: Clock | None = None, tell: Callable[..., Any] | None = None, published: str = ""
) -> Home:
    """Open the home that a URL names: ``sqlite:///path``, ``aws://prefix?region=…`` or ``memory://``.

    ``clock`` and ``tell``, which counts an event of telemetry, belong to the app that opens it; ``published`` is the
    name of the version of a function in which the app runs.
    """
    scheme, separator, rest = url.partition("://")
    if separator and scheme == "sqlite" and rest.startswith("/") and len(rest) > 1:
        from holdfast.backends.sqlite import open_sqlite_home  # noqa: PLC0415 - only the backend in use is loaded

        return await open_sqlite_home(Path(rest[1:]))
    if separator and scheme == "memory":
        from holdfast.backends.memory import open_memory_home  # noqa: PLC0415 - only the backend in use is loaded

        return open_memory_home(rest or None)
    if separator and scheme == "aws":
        from holdfast.backends.aws import open_aws_home  # noqa: PLC0415 - only the backend in use is loaded

        return await open_aws_home(url, clock=clock, tell=tell, published=published)
    raise ConfigurationError(
        f"{told_url(url)!r} names no home. Write sqlite:///relative/path.db, sqlite:////absolute/path.db, "
        "aws://prefix?region=… or memory://"
    )


def open_shared(url: str, app: str) -> Shared:
    """The cache that a URL names: ``redis://host:port/database``, or ``rediss://`` with TLS."""
    if not url.startswith(("redis://", "rediss://", "unix://")):
        raise ConfigurationError(f"{told_url(url)!r} names no cache. Write redis://host:6379/0")
    try:
        from holdfast.backends.redis import open_redis  # noqa: PLC0415 - only the backend in use is loaded
    except ImportError as error:
        raise ConfigurationError(
            "a cache on Redis needs its client: pip install '.[redis]' in a checkout of Holdfast"
        ) from error
    return open_redis(url, f"holdfast:{app}:")
