"""How long a method may run. One that takes longer is cancelled, and one that does not heed that is left behind."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Coroutine, Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final, TypeVar

from msgspec import UNSET, UnsetType

from holdfast.containment import Run
from holdfast.duration import Duration, seconds
from holdfast.errors import CallTimeout, ConfigurationError
from holdfast.flow.limits import AnyLimit, LimitUse, check_uses, uses_of
from holdfast.functions import told
from holdfast.kernel.outcomes import LeftBehind

if TYPE_CHECKING:
    from holdfast.codec.signature import Signature
    from holdfast.kernel.runtime import Runtime

F = TypeVar("F", bound=Callable[..., Coroutine[Any, Any, Any]])
T = TypeVar("T")

LONGEST_ENDING_SECONDS: Final = 5.0
"""So long may a method that is cancelled take to end, or as long as its limit, if that is less."""

Limit = float | None | UnsetType
"""In seconds; ``None``: for ever; unset: as the class says, or as long as a lease."""

Leave = Callable[[CallTimeout], None]

_LIMIT: Final = "__holdfast_limit__"
_USES: Final = "__holdfast_uses__"


def limit_in_seconds(timeout: Duration | UnsetType | None, what: str) -> Limit:
    """A limit as it is kept. Raises ``ConfigurationError`` if it leaves no time at all."""
    if timeout is None or timeout is UNSET:
        return timeout
    limit = seconds(timeout)
    if limit <= 0:
        raise ConfigurationError(f"the timeout of {what} leaves it no time: give it more, or None for no limit")
    return limit


def method(*, timeout: Duration | UnsetType | None = UNSET, limit: AnyLimit | None = None) -> Callable[[F], F]:
    """Declare how long one method of an actor may run; ``None`` sets no limit. Below ``@hf.read`` and ``@hf.timer``.

    One that takes longer is cancelled, nothing of it is kept (G4), and its caller gets ``CallTimeout``. A call of it
    begins when it has a permit of each ``limit``, and its time begins then (G16).
    """

    def declare(function: F) -> F:
        check_method("hf.method", function)
        setattr(function, _LIMIT, limit_in_seconds(timeout, f"method {function.__name__!r}"))
        setattr(function, _USES, uses_of(limit, f"method {function.__name__!r}"))
        return function

    return declare


def default_seconds(runtime: Runtime) -> float:
    """How long a method may run that does not say so: as long as others would wait for a process that hangs."""
    limits = runtime.limits if runtime.host is None else runtime.host.limits
    return limits.lease_ms / 1000


def check_method(decorator: str, function: Any) -> None:
    """Raise ``ConfigurationError`` if what a decorator is given cannot be a method that callers reach."""
    if not inspect.iscoroutinefunction(function):
        raise ConfigurationError(
            f"@{decorator} is for an async def in an actor, and was given {told(function)}; a plain def is not called "
            "from outside, and needs no decorator"
        )


def declared_limit(function: Any) -> Limit:
    """What a method was declared with."""
    limit: Limit = getattr(function, _LIMIT, UNSET)
    return limit


def declared_uses(function: Any, signature: Signature) -> tuple[LimitUse, ...]:
    """The limits that a method was declared with. Raises ``InvalidInput`` if they do not fit its parameters."""
    uses: tuple[LimitUse, ...] = getattr(function, _USES, ())
    check_uses(uses, signature.parameter_names, f"method {function.__name__!r}")
    return uses


class Limited(Run[T]):
    """A run that has a number of seconds of its own. ``late`` is called when they are over, and ``leave`` if the code,
    cancelled, does not end: what it does from then on comes to nothing, and awaiting it raises ``LeftBehind``, if ever.
    """

    __slots__ = ("_late", "_leave", "_left", "_limit", "_pauses", "_timer", "_what", "is_late", "is_left")

    def __init__(
        self,
        code: Coroutine[Any, Any, T],
        what: str,
        limit: float | None,
        late: Callable[[], None],
        leave: Leave | None = None,
    ) -> None:
        super().__init__(code)
        self._what = what
        self._limit = self._left = limit
        self._pauses = 0
        self._late = late
        self._leave = leave
        self._timer: asyncio.TimerHandle | None = None
        self.is_late = self.is_left = False

    @property
    def lateness(self) -> CallTimeout:
        """What is to be said of a run that took too long."""
        return CallTimeout(
            f"{self._what} ran for longer than {self._limit:g} s and was cancelled; nothing of it was kept. If it "
            "needs more, declare it with timeout=..., or None for no limit"
        )

    def waits(self) -> None:
        if not self._pauses:
            self._begin()

    @contextmanager
    def paused(self) -> Generator[None]:
        """Its time stands still within the block, unless it is over."""
        self._pauses += 1
        if self._pauses == 1 and self._timer is not None and not self.is_late:
            self._left = max(0.0, self._timer.when() - asyncio.get_running_loop().time())
            self._timer.cancel()
            self._timer = None
        try:
            yield
        finally:
            self._pauses -= 1
            if not (self._pauses or self.is_late):
                self._begin()

    def _begin(self) -> None:
        if self._left is not None and self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(self._left, self._expire)

    def _expire(self) -> None:
        assert self._limit is not None
        self.is_late = True
        self._late()
        self.requests += 1
        self.task.cancel()
        patience = min(self._limit, LONGEST_ENDING_SECONDS)
        self._timer = asyncio.get_running_loop().call_later(patience, self._give_up)

    def _give_up(self) -> None:
        if self._leave is not None:
            self.is_left = True
            self._leave(self.lateness)

    def over(self) -> None:
        self._left = None
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def ended(self, error: BaseException | None, *, asked: bool) -> BaseException | None:
        if self.is_left:
            return LeftBehind()
        if self.is_late and not asked:
            return self.lateness
        return super().ended(error, asked=asked)
