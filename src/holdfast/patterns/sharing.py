"""Leases, caches, sessions and resources of an app: what processes share, and what each has once."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any, ParamSpec, Protocol, TypeVar, overload

from holdfast.duration import Duration, seconds
from holdfast.errors import DuplicateName
from holdfast.kernel.runtime import Runtime
from holdfast.patterns.cached import Cached, rules_of
from holdfast.patterns.injection import F, Resources
from holdfast.patterns.leader import Leader
from holdfast.patterns.lease import DEFAULT_TTL, Lease, Semaphore, WithLease, checked_name, with_lease
from holdfast.patterns.resource import DEFAULT_CHECK_EVERY, Check, Factory, Resource
from holdfast.patterns.session import Place, Sessions

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")


class CacheDecorator(Protocol):
    """``@app.cache(...)``: the function keeps its signature."""

    def __call__(self, function: Callable[P, Coroutine[Any, Any, R]], /) -> Cached[P, R]:
        """The function, behind a cache."""
        ...


class Sharing:
    """What an app offers for working beside others. Nothing here reads or writes before it is used."""

    def __init__(self) -> None:
        self._cached: set[str] = set()
        self._resources = Resources()

    def runtime(self) -> Runtime:
        """The open app, as the patterns see it. Raises ``ConfigurationError`` if it is not open."""
        raise NotImplementedError

    # ── Leases ──────────────────────────────────────────────────────────────────────────────────────────────────────

    def lease(self, name: str, *, ttl: Duration = DEFAULT_TTL, wait: Duration | None = None) -> Lease:
        """A block that one at a time is in: ``async with app.lease("nightly-report") as held: ...``.

        Entering and leaving are one write each. The lease is renewed while the block runs, and free ``ttl`` after its
        process died, at once where the home can tell. Entering waits ``wait`` for others (``None``: as long as it
        takes, 0: not at all), then raises ``WaitTimeout``. ``held.fence`` is for whatever the block changes (G9);
        ``held.check()`` raises ``LeaseLost`` once the lease is lost, and so does leaving a block that did not fail.
        """
        return Lease(self.runtime, name, ttl, wait)

    def semaphore(
        self, name: str, permits: int, *, ttl: Duration = DEFAULT_TTL, wait: Duration | None = None
    ) -> Semaphore:
        """A block that at most ``permits`` are in at once; otherwise as ``lease``."""
        return Semaphore(self.runtime, name, permits, ttl, wait)

    def with_lease(self, name: str, *, ttl: Duration = DEFAULT_TTL, wait: Duration | None = None) -> WithLease:
        """Hold a lease during each call of the function: ``async def``, or ``def`` that is called in a thread."""
        return with_lease(partial(self.lease, name, ttl=ttl, wait=wait))

    def leader(self, name: str, *, ttl: Duration = DEFAULT_TTL) -> Leader:
        """A job for one process at a time: ``await app.leader("billing").run(work)``."""
        return Leader(self.runtime, name, ttl)

    # ── Caches ──────────────────────────────────────────────────────────────────────────────────────────────────────

    def cache(  # noqa: PLR0913 - how long, and in which case: each has its own length
        self,
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
        """Remember what an ``async def`` answers, by its arguments: ``@app.cache(ttl="5m")``.

        A value is fresh for ``ttl``, thinned by up to ``jitter``; ``None`` for ``missing_ttl``. For ``stale`` longer it
        is still answered while a newer one is loaded; for ``stale_if_error`` longer if loading fails. However many ask,
        one loads: in this process always, and among processes that share a cache for at most ``fill_timeout``. What is
        shared is answered from this process's memory for at most ``memory_ttl`` after it was read: so long may it miss
        an invalidation by another. ``max_entries`` stay in memory. ``version`` tells that of an answer, for
        ``invalidate_below``.
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
            if called in self._cached:
                raise DuplicateName(f"two cached functions are called {called!r}; give one of them another: name=...")
            self._cached.add(called)
            return Cached(self.runtime, function, called, rules, version)

        return decorate

    # ── Sessions ────────────────────────────────────────────────────────────────────────────────────────────────────

    def session(self, name: str, *, idle: Duration = "30m", lifetime: Duration = "30d", on: Place = "home") -> Sessions:
        """Sessions of visitors, on the app's home, or on the Redis of its cache: ``on="cache"``.

        A session expires ``idle`` after it was last found, and ``lifetime`` after it began, whatever happens.
        """
        return Sessions(self.runtime, name, idle, lifetime, on)

    # ── Resources ───────────────────────────────────────────────────────────────────────────────────────────────────

    @overload
    def resource(self, factory: Factory[T], /) -> Resource[T]: ...
    @overload
    def resource(self, /, *, check: Check[T], check_every: Duration = ...) -> Callable[[Factory[T]], Resource[T]]: ...
    def resource(
        self,
        factory: Factory[Any] | None = None,
        /,
        *,
        check: Check[Any] | None = None,
        check_every: Duration = DEFAULT_CHECK_EVERY,
    ) -> Any:
        """Declare something that each process opens once and shares: an async generator that yields it, once.

        What comes after the ``yield`` closes it, when the app closes. Steps, consumers, schedules, methods of actors
        and functions under ``@app.inject`` get it by its type. ``check`` is awaited with it before it is given out, if
        the last time was ``check_every`` ago; if that raises, or answers ``False``, it is closed and opened anew.
        """
        seconds(check_every)

        def declare(factory: Factory[Any]) -> Resource[Any]:
            resource: Resource[Any] = Resource(self.runtime, factory, check, check_every)
            self._resources.add(resource)
            return resource

        return declare if factory is None else declare(factory)

    def inject(self, function: F) -> F:
        """Give resources to a function: parameters annotated with a resource's type are no longer its caller's.

        Not needed for what the app declares itself: steps, consumers, handlers of schedules, methods of actors.
        """
        return self._resources.inject(function)
