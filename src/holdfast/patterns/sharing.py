"""Leases, caches, sessions and resources of an app: what processes share, and what each process has once."""

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
    """What an app offers for work next to other processes. Nothing here reads or writes before it is used."""

    def __init__(self) -> None:
        self._cached: set[str] = set()
        self._resources = Resources()

    def runtime(self) -> Runtime:
        """The open app, as the patterns see it. Raises ``ConfigurationError`` if it is not open."""
        raise NotImplementedError

    # ── Leases ──────────────────────────────────────────────────────────────────────────────────────────────────────

    def lease(self, name: str, *, ttl: Duration = DEFAULT_TTL, wait: Duration | None = None) -> Lease:
        """A block that one caller at a time runs: ``async with app.lease("nightly-report") as held: ...``.

        Entering and leaving are one write each. The lease is renewed while the block runs. After the death of its
        process it is free within ``ttl``, or at once where the home can tell. Entering waits ``wait`` for others
        (``None``: without limit, 0: not at all), then raises ``WaitTimeout``. ``held.fence`` is for whatever the block
        changes (G9).
        ``held.check()`` raises ``LeaseLost`` once the lease is lost, and so does leaving a block that did not fail.
        """
        return Lease(self.runtime, name, ttl, wait)

    def semaphore(
        self, name: str, permits: int, *, ttl: Duration = DEFAULT_TTL, wait: Duration | None = None
    ) -> Semaphore:
        """A block that at most ``permits`` callers run at once; otherwise as ``lease``."""
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
            if called in self._cached:
                raise DuplicateName(
                    f"two cached functions have the name {called!r}; give one of them another: name=..."
                )
            self._cached.add(called)
            return Cached(self.runtime, function, called, rules, version)

        return decorate

    # ── Sessions ────────────────────────────────────────────────────────────────────────────────────────────────────

    def session(self, name: str, *, idle: Duration = "30m", lifetime: Duration = "30d", on: Place = "home") -> Sessions:
        """Sessions of visitors, on the app's home, or on the Redis of its cache: ``on="cache"``.

        A session expires ``idle`` after it was last found, and ``lifetime`` after it began in any case.
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
        """Declare an object that each process opens once and shares: an async generator that yields it, once.

        The code after the ``yield`` closes it, when the app closes. Steps, consumers, schedules, methods of actors and
        functions under ``@app.inject`` get it by its type. ``check`` is awaited with it before it is used, if the last
        check was ``check_every`` ago; if that raises, or returns ``False``, it is closed and opened again.
        """
        seconds(check_every)

        def declare(factory: Factory[Any]) -> Resource[Any]:
            resource: Resource[Any] = Resource(self.runtime, factory, check, check_every)
            self._resources.add(resource)
            return resource

        return declare if factory is None else declare(factory)

    def inject(self, function: F) -> F:
        """Inject resources into a function: parameters annotated with a resource's type are no longer passed by the
        caller.

        Not needed for what the app declares itself: steps, consumers, handlers of schedules, methods of actors.
        """
        return self._resources.inject(function)
