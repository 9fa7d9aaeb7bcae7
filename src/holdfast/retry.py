"""Retry policies as data: they can be shown and compared, and call at most two pure functions of the user."""

from __future__ import annotations

import inspect
import logging
import math
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from random import Random
from typing import Any, Final, cast

from holdfast.containment import origin_of
from holdfast.duration import Duration, milliseconds, seconds
from holdfast.errors import DeterminismError, InvalidInput, StepInterrupted, Terminal
from holdfast.texts import frames_of

PROGRAMMING_ERRORS: Final = (TypeError, AttributeError, NameError, AssertionError, NotImplementedError, SyntaxError)
"""Trying again does not repair these."""


_logger = logging.getLogger("holdfast")


class Jitter(StrEnum):
    """How much of a delay is random: none, its upper half, or all of it."""

    NONE = "none"
    HALF = "half"
    FULL = "full"


@dataclass(frozen=True, slots=True, kw_only=True)
class Retry:
    """When to try a step again.

    Attempt ``n`` is followed by a delay of ``initial * backoff ** (n - 1)``, at most ``max_delay``, shortened by
    ``jitter``. ``Terminal`` errors, programming errors and classes in ``never`` are not retried; if ``only`` is given,
    only those are. For the rest, ``when(error)`` decides whether to try again, and ``delay(error, attempt)`` how long
    to wait, as it is: no jitter, no ``max_delay``; ``None`` leaves it to the policy. Both are plain, pure functions of
    their arguments. If one raises, that is logged: ``when`` then means no, and ``delay`` leaves it to the policy.

    The default makes three attempts.

    >>> Retry(max_attempts=5, initial="1s", max_delay="3s", jitter=Jitter.NONE).delays_seconds()
    (1.0, 2.0, 3.0, 3.0)
    """

    max_attempts: int = 3
    initial: Duration = 1.0
    backoff: float = 2.0
    max_delay: Duration = 60.0
    jitter: Jitter = Jitter.HALF
    only: tuple[type[BaseException], ...] = ()
    never: tuple[type[BaseException], ...] = ()
    when: Callable[[Exception], bool] | None = None
    delay: Callable[[Exception, int], Duration | None] | None = None

    def __post_init__(self) -> None:
        attempts: Any = self.max_attempts  # users without a type checker may pass anything
        backoff: Any = self.backoff
        if type(attempts) is not int or attempts < 1:
            raise InvalidInput(f"max_attempts must be at least 1, got {attempts!r}; it counts the first attempt too")
        if not isinstance(backoff, int | float) or not backoff >= 1:
            raise InvalidInput(f"backoff must be at least 1, got {backoff!r}; it multiplies each delay")
        if self.jitter not in tuple(Jitter):
            raise InvalidInput(f"jitter must be one of {', '.join(Jitter)}, got {self.jitter!r}")
        object.__setattr__(self, "jitter", Jitter(self.jitter))
        for name in ("only", "never"):
            classes: Any = getattr(self, name)
            if not (isinstance(classes, tuple) and all(map(_is_error_class, cast("tuple[Any, ...]", classes)))):
                raise InvalidInput(f"{name} must be a tuple of exception classes, such as (OSError,), got {classes!r}")
        for name in ("when", "delay"):
            function: Any = getattr(self, name)
            if function is not None and (not callable(function) or inspect.iscoroutinefunction(function)):
                raise InvalidInput(f"{name} must be a plain function of the error, not async, got {function!r}")
        seconds(self.initial)
        seconds(self.max_delay)

    def next_delay_ms(self, error: BaseException, attempt: int, random: Random) -> int | None:
        """How long to wait after ``attempt`` (1 is the first) ended in ``error``; ``None``: not to try again."""
        if not self.retries(error, attempt):
            return None
        chosen = self._chosen_delay_ms(error, attempt)
        return math.ceil(self.delay_seconds(attempt, random) * 1000) if chosen is None else chosen

    def retries(self, error: BaseException, attempt: int) -> bool:
        """Whether to try again after ``attempt`` (1 is the first) ended in ``error``."""
        error = origin_of(error)
        if attempt >= self.max_attempts or not isinstance(error, Exception):
            return False
        if isinstance(error, (Terminal, DeterminismError, StepInterrupted, *PROGRAMMING_ERRORS, *self.never)):
            return bool(self.only) and isinstance(error, self.only) and self._agrees(error)
        return (not self.only or isinstance(error, self.only)) and self._agrees(error)

    def _agrees(self, error: Exception) -> bool:
        if self.when is None:
            return True
        try:
            answer: Any = self.when(error)
        except Exception as raised:  # noqa: BLE001 - code of the user's, which may raise anything
            told = "retry's `when` raised, so the attempt is not repeated: %r, %s"
            _logger.error(told, self.when, frames_of(raised))  # noqa: TRY400 - the error may quote what was worked on
            return False
        if answer is not True and answer is not False:
            _logger.error(
                "retry's `when` answered %s, not a bool, so the attempt is not repeated", type(answer).__name__
            )
            return False
        return bool(answer)

    def _chosen_delay_ms(self, error: BaseException, attempt: int) -> int | None:
        if self.delay is None or not isinstance(error, Exception):
            return None
        try:
            chosen = self.delay(error, attempt)
            return None if chosen is None else milliseconds(chosen)
        except Exception as raised:  # noqa: BLE001 - code of the user's, which may raise anything
            told = "retry's `delay` failed, so the policy's own is used: %r, %s"
            _logger.error(told, self.delay, frames_of(raised))  # noqa: TRY400 - the error may quote what was worked on
            return None

    def delay_seconds(self, attempt: int, random: Random) -> float:
        """How long to wait after ``attempt``, jitter included."""
        delay = self._full_delay_seconds(attempt)
        match self.jitter:
            case Jitter.NONE:
                return delay
            case Jitter.HALF:
                return delay * (0.5 + random.random() / 2)
            case Jitter.FULL:
                return delay * random.random()

    def delays_seconds(self) -> tuple[float, ...]:
        """Every delay of this policy without jitter, for showing it."""
        return tuple(self._full_delay_seconds(attempt) for attempt in range(1, self.max_attempts))

    def _full_delay_seconds(self, attempt: int) -> float:
        try:
            return min(seconds(self.initial) * self.backoff ** (attempt - 1), seconds(self.max_delay))
        except OverflowError:
            return seconds(self.max_delay)


def _is_error_class(value: object) -> bool:
    return isinstance(value, type) and issubclass(value, BaseException)


NO_RETRY: Final = Retry(max_attempts=1)
