"""Leases, caches, sessions and resources of an app: what processes share, and what each process has once."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any, ParamSpec, Protocol, TypeVar, overload

from holdfast.duration import Duration, seconds
from holdfast.errors import DuplicateName
from holdfast.kernel.runtime import Declares
from holdfast.patterns.cached import Cached, rules_of
from holdfast.patterns.injection import Resources
from holdfast.patterns.leader import Leader
from holdfast.patterns.lease import DEFAULT_TTL, Lease, Semaphore, WithLease, checked_name
from holdfast.patterns.lease import with_lease as held_in_calls
from holdfast.patterns.resource import DEFAULT_CHECK_EVERY, Check, Factory, Resource
from holdfast.patterns.session import Place, Sessions

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")


class Shares(Declares, Protocol):
    """An app, as the functions that declare what its processes share see it."""

    @property
    def resources(self) -> Resources: ...


class CacheDecorator(Protocol):
    """``@app.cache(...)``: the function keeps its signature."""

    def __call__(self, function: Callable[P, Coroutine[Any, Any, R]], /) -> Cached[P, R]:
        """The function, behind a cache."""
        ...


# ── Leases ──────────────────────────────────────────────────────────────────────────────────────────────────────


def lease(app: Shares, name: str, *, ttl: Duration = DEFAULT_TTL, wait: Duration | None = None) -> Lease:
    """A block that one caller at a time runs: ``async with app.lease("nightly-report") as held: ...``.

    Entering and leaving are one write each. The lease is renewed while the block runs. After the death of its
    process it is free within ``ttl``, or at once where the home can tell. Entering waits ``wait`` for others
    (``None``: without limit, 0: not at all), then raises ``WaitTimeout``. ``held.fence`` is for whatever the block
    changes (G9).
    ``held.check()`` raises ``LeaseLost`` once the lease is lost, and so does leaving a block that did not fail.
    """
    return Lease(app.runtime, name, ttl, wait)


def semaphore(
    app: Shares, name: str, permits: int, *, ttl: Duration = DEFAULT_TTL, wait: Duration | None = None
) -> Semaphore:
    """A block that at most ``permits`` callers run at once; otherwise as ``lease``."""
    return Semaphore(app.runtime, name, permits, ttl, wait)


def with_lease(app: Shares, name: str, *, ttl: Duration = DEFAULT_TTL, wait: Duration | None = None) -> WithLease:
    """Hold a lease during each call of the function: ``async def``, or ``def`` that is called in a thread."""
    return held_in_calls(partial(lease, app, name, ttl=ttl, wait=wait))


def leader(app: Shares, name: str, *, ttl: Duration = DEFAULT_TTL) -> Leader:
    """A job for one process at a time: ``await app.leader("billing").run(work)``."""
    return Leader(app.runtime, name, ttl)


# ── Caches ──────────────────────────────────────────────────────────────────────────────────────────────────────


def cache(  # noqa: PLR0913 - how long, and in which case: each has its own length
    app: Shares,
    *,
    ttl: Duration,
    name: str | None = None,
    missing_ttl: Duration | None = None,
    stale: Duration = 0,
    stale_if_error: Duration = 0,
    memory_ttl: Duration = 1.0,
    fill_timeout: Duration = 10.0,
    jitter: float = 0.1,
    max_entries: int = 10_000,
    version: Callable[[Any], int] | None = None,
) -> CacheDecorator:
    """Keep the results of an ``async def``, by its arguments: ``@app.cache(ttl="5m")``.

    A value is fresh for ``ttl``, shortened at random by up to ``jitter``; ``None`` for ``missing_ttl``. For
    ``stale`` longer it is still returned while a newer one is loaded; for ``stale_if_error`` longer if loading
    fails. However many callers there are, one loads: in this process always, and among processes that share a cache
    for at most
    ``fill_timeout``. A shared value is returned from this process's memory for at most ``memory_ttl`` after it was
    read, so an invalidation by another process may take that long. ``max_entries`` stay in memory. ``version``
    returns the version of a result, for ``invalidate_below``.
    """
    rules = rules_of(
        ttl=ttl,
        missing_ttl=missing_ttl,
        stale=stale,
        stale_if_error=stale_if_error,
        memory_ttl=memory_ttl,
        fill_timeout=fill_timeout,
        jitter=jitter,
        max_entries=max_entries,
    )

    def decorate(function: Callable[P, Coroutine[Any, Any, R]]) -> Cached[P, R]:
        called = checked_name("cache", function.__name__ if name is None else name)
        if called in app.registry.cached:
            raise DuplicateName(f"two cached functions have the name {called!r}; give one of them another: name=...")
        app.registry.cached.add(called)
        return Cached(app.runtime, function, called, rules, version)

    return decorate


# ── Sessions ────────────────────────────────────────────────────────────────────────────────────────────────────


def session(
    app: Shares, name: str, *, idle: Duration = "30m", lifetime: Duration = "30d", on: Place = "home"
) -> Sessions:
    """Sessions of visitors, on the app's home, or on the Redis of its cache: ``on="cache"``.

    A session expires ``idle`` after it was last found, and ``lifetime`` after it began in any case.
    """
    return Sessions(app.runtime, name, idle, lifetime, on)


# ── Resources ───────────────────────────────────────────────────────────────────────────────────────────────────


@overload
def resource(app: Shares, factory: Factory[T], /) -> Resource[T]: ...


@overload
def resource(
    app: Shares, /, *, check: Check[T], check_every: Duration = ...
) -> Callable[[Factory[T]], Resource[T]]: ...


def resource(
    app: Shares,
    factory: Factory[Any] | None = None,
    /,
    *,
    check: Check[Any] | None = None,
    check_every: Duration = DEFAULT_CHECK_EVERY,
) -> Any:
    """Declare an object that each process opens once and shares: an async generator that yields it, once.

    The code after the ``yield`` closes it, when the app closes. Steps, consumers, schedules, methods of actors and
    functions under ``@app.inject`` get it by its type. ``check`` is awaited with it before it is used, if the last
    check was ``check_every`` ago; if that raises, or returns ``False``, it is closed and opened again.
    """
    seconds(check_every)

    def declare(factory: Factory[Any]) -> Resource[Any]:
        resource: Resource[Any] = Resource(app.runtime, factory, check, check_every)
        app.resources.add(resource)
        return resource

    return declare if factory is None else declare(factory)
