"""Opening what the processes of an app share besides their home."""

from __future__ import annotations

from holdfast.errors import ConfigurationError
from holdfast.ports import Shared


def open_shared(url: str, app: str) -> Shared:
    """The cache that a URL names: ``redis://host:port/database``, or ``rediss://`` with TLS."""
    if not url.startswith(("redis://", "rediss://", "unix://")):
        raise ConfigurationError(f"{url!r} names no cache. Write redis://host:6379/0")
    try:
        from holdfast.backends.redis import open_redis  # noqa: PLC0415 - only the backend in use is loaded
    except ImportError as error:
        raise ConfigurationError("a cache on Redis needs its client: pip install 'holdfast[redis]'") from error
    return open_redis(url, f"holdfast:{app}:")
