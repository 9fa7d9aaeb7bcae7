"""Leases and semaphores of an app: blocks that only a limited number of callers run at once, wherever they run.

A lease keeps work from being done twice. If that happens all the same, the fence keeps it from doing harm (G9). No
lock can promise more: a process may be stopped at any moment, and not notice it when it continues.
"""

from __future__ import annotations

import contextvars
import functools
import inspect
from collections.abc import Callable, Coroutine
from types import TracebackType
from typing import Any, Final, ParamSpec, Protocol, TypeVar, cast, overload

from holdfast.duration import Duration, milliseconds, seconds
from holdfast.errors import InvalidInput, InvalidState
from holdfast.kernel.runtime import Connect
from holdfast.patterns.acquiring import Acquisition
from holdfast.patterns.bridge import wait_in_thread
from holdfast.patterns.held import HeldLease

P = ParamSpec("P")
R = TypeVar("R")

SHORTEST_TTL_MS: Final = 1_000
LONGEST_TTL_MS: Final = 86_400_000
"""A lease is renewed three times in its length, and its length is how long a dead owner may block others."""

DEFAULT_TTL: Final = "30s"
MOST_PERMITS: Final = 1_000
NAME_CHARACTERS: Final = 200

_held_here: contextvars.ContextVar[tuple[HeldLease, ...]] = contextvars.ContextVar("holdfast_leases", default=())
"""The leases that the running code holds, or that the code that started it held then."""


class Lease:
    """A block that one caller at a time runs: ``async with lease as held:``, or ``with`` in a thread without an event
    loop.

    Nothing happens before it is entered. One object serves one block at a time, and any number in sequence.
    """

    kind = "lease"

    def __init__(self, connect: Connect, name: str, ttl: Duration, wait: Duration | None, *, permits: int = 1) -> None:
        self.name = checked_name(self.kind, name)
        self._connect = connect
        self._ttl_ms = milliseconds(ttl)
        if not SHORTEST_TTL_MS <= self._ttl_ms <= LONGEST_TTL_MS:
            raise InvalidInput(f"the ttl of a {self.kind} must be 1 second to 1 day, got {ttl!r}")
        self._wait_seconds = None if wait is None else seconds(wait)
        self._sorts = tuple(f"p#{number:04}" for number in range(permits))
        self._held: HeldLease | None = None
        self._entering = False

    @property
    def _partition(self) -> str:
        return f"{self.kind}#{self.name}"

    async def __aenter__(self) -> HeldLease:
        self._check_free()
        self._entering = True
        try:
            acquisition = Acquisition(self._connect(), self._partition, self._sorts, self._ttl_ms)
            won = await acquisition.win(self._wait_seconds)
            self._held = HeldLease(self.name, self._sorts.index(won.item.sort), acquisition, won)
        finally:
            self._entering = False
        self._remember(self._held)
        return self._held

    async def __aexit__(
        self, _type: type[BaseException] | None, error: BaseException | None, _traceback: TracebackType | None
    ) -> None:
        held, self._held = self._held, None
        assert held is not None, "a block that ends has begun"
        lost = await held.leave()
        if lost is not None and error is None:
            raise lost

    def __enter__(self) -> HeldLease:
        self._check_free()
        held = wait_in_thread(self._connect, self.__aenter__())
        self._remember(held)
        return held

    def __exit__(
        self, type: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        wait_in_thread(self._connect, self.__aexit__(type, error, traceback))

    # ── Not twice ───────────────────────────────────────────────────────────────────────────────────────────────────

    def _check_free(self) -> None:
        if self._held is not None or self._entering:
            raise InvalidState(
                f"this object is in use for {self.kind} {self.name!r}; make another for each block that runs at the "
                f"same time: app.{self.kind}({self.name!r})"
            )
        if any(self._is_ours(held) for held in _held_here.get()):
            raise InvalidState(
                f"the code that acquires {self.kind} {self.name!r} holds it already and would wait for itself; pass "
                "what you hold to the inner function. (A task that was started inside the block counts as inside.)"
            )

    def _is_ours(self, held: HeldLease) -> bool:
        return len(self._sorts) == 1 and held.is_held and held.is_of(self._connect(), self._partition)

    def _remember(self, held: HeldLease) -> None:
        _held_here.set((*(each for each in _held_here.get() if each.is_held), held))


class Semaphore(Lease):
    """A block that at most ``permits`` callers run at once. ``held.permit`` is the permit's number; each has its own
    fences.

    Used like a ``Lease``. Give the same number everywhere: with a lower one, holders of higher permits are not seen.
    """

    kind = "semaphore"

    def __init__(self, connect: Connect, name: str, permits: int, ttl: Duration, wait: Duration | None) -> None:
        count: Any = permits  # users without a type checker
        if type(count) is not int or not 1 <= count <= MOST_PERMITS:
            raise InvalidInput(f"a semaphore must have 1 to {MOST_PERMITS} permits, got {permits!r}")
        super().__init__(connect, name, ttl, wait, permits=permits)


class WithLease(Protocol):
    """The decorator ``app.with_lease(...)``: the function keeps its signature."""

    @overload
    def __call__(self, function: Callable[P, Coroutine[Any, Any, R]], /) -> Callable[P, Coroutine[Any, Any, R]]: ...
    @overload
    def __call__(self, function: Callable[P, R], /) -> Callable[P, R]: ...


def with_lease(make: Callable[[], Lease]) -> WithLease:
    """A decorator that holds one lease for each call of an ``async def``, or of a ``def`` in a thread."""
    make()  # a wrong declaration raises where it is written

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        if inspect.iscoroutinefunction(function):

            @functools.wraps(function)
            async def called(*args: Any, **kwargs: Any) -> Any:
                async with make():
                    return await function(*args, **kwargs)

            return called

        @functools.wraps(function)
        def called_in_thread(*args: Any, **kwargs: Any) -> Any:
            with make():
                return function(*args, **kwargs)

        return called_in_thread

    return cast("WithLease", decorate)


def checked_name(kind: str, name: str) -> str:
    """``name``, if it is a valid one. Raises ``InvalidInput``."""
    given: Any = name  # users without a type checker
    if not isinstance(given, str) or not 1 <= len(given) <= NAME_CHARACTERS or not given.isprintable():
        raise InvalidInput(f"the name of a {kind} must have 1 to {NAME_CHARACTERS} printable characters, got {name!r}")
    return name
