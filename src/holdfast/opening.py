"""Opens an app; and a home, or a cache that processes share, by its URL. Only the backend in use is loaded."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Coroutine
from contextlib import AsyncExitStack
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol

from holdfast.clock import Clock
from holdfast.coordination.inbox import Sender
from holdfast.coordination.offload import roomy
from holdfast.coordination.sealing import sealed, sealed_shared
from holdfast.errors import ConfigurationError
from holdfast.kernel.listeners import WakeListeners
from holdfast.kernel.presence import Presence
from holdfast.kernel.runtime import Declares, Hosting, Kept, Runtime
from holdfast.ports import Home
from holdfast.runtime.log_context import add_context
from holdfast.shared import Shared
from holdfast.texts import told_url

if TYPE_CHECKING:
    from holdfast.coordination.sealing import Envelope
    from holdfast.hints import Hint
    from holdfast.kernel.limits import Limits
    from holdfast.telemetry import Telemetry

CACHE_VARIABLE: Final = "HOLDFAST_CACHE_URL"

OpenHome = Callable[[], Coroutine[Any, Any, Home]]
OpenShared = Callable[[], Shared]


class Opens(Declares, Protocol):
    """An app, as what opens it sees it."""

    telemetry: Telemetry
    envelope: Envelope | None
    published: str

    @property
    def home_url(self) -> str: ...

    @property
    def limits(self) -> Limits: ...


async def open_runtime(
    app: Opens, home: OpenHome | None, cache: str | OpenShared | None, heard: Callable[[Hint], None]
) -> Runtime:
    """Open an app: its home by ``home``, else by its URL. Hints of the home go to ``heard``."""
    add_context()
    if app.registry.workflows:
        import_module("holdfast.workflows.handle")  # now, and not in the first call that starts or awaits one of them
    shared = _shared_of(app, cache)
    try:
        opened = await _home_of(app, home)
    except BaseException:
        if shared.cache is not None:
            await shared.cache.close()
        raise
    runtime = Runtime(
        home=opened,
        clock=app.clock,
        limits=app.limits,
        limit_bytes=app.limit_bytes,
        telemetry=app.telemetry,
        registry=app.registry,
        shared=shared,
        loop=asyncio.get_running_loop(),
        sender=Sender(app.clock),
        presence=Presence(opened),
        wake_listeners=WakeListeners(),
        hosting=Hosting(),
        kept=Kept(),
    )
    try:
        opened.doorbell.listen(heard)
    except BaseException:
        await close_runtime(runtime)
        raise
    return runtime


async def close_runtime(runtime: Runtime) -> None:
    """Close the home of an app, and its cache."""
    async with AsyncExitStack() as stack:
        stack.push_async_callback(runtime.home.store.close)
        stack.push_async_callback(runtime.home.doorbell.close)
        if runtime.shared.cache is not None:
            stack.push_async_callback(runtime.shared.cache.close)


async def _home_of(app: Opens, custom: OpenHome | None) -> Home:
    if custom is not None:
        bare = await custom()
    else:
        bare = await open_home(app.home_url, clock=app.clock, tell=app.telemetry.emit, published=app.published)
    enlarge = partial(roomy, clock=app.clock, limit_bytes=app.limit_bytes)
    return enlarge(bare) if app.envelope is None else sealed(bare, app.envelope, partial(enlarge, refused=()))


def _shared_of(app: Opens, cache: str | OpenShared | None) -> Shared:
    if callable(cache):
        shared = cache()
    else:
        url = cache or os.environ.get(CACHE_VARIABLE)
        shared = Shared() if url is None else open_shared(url, app.name)
    return shared if app.envelope is None else sealed_shared(shared, app.envelope)


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
