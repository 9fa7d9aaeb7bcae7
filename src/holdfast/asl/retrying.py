"""What follows an error: another attempt, a catcher, or the end. Pure: the counts of attempts go in and come out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from msgspec import Struct

from holdfast.asl.definition import Catcher, Retrier
from holdfast.asl.errors import ALL, RUNTIME, TASK_FAILED, TIMEOUT, StatesError

FULL: Final = "FULL"
LONGEST_DELAY_SECONDS: Final = 31_622_400.0
"""366 days: the largest ``MaxDelaySeconds`` of AWS."""


class Again(Struct, frozen=True):
    """Try again after ``delay_seconds``, by the retrier at ``index``. ``attempts`` are the counts from now on."""

    index: int
    delay_seconds: float
    attempts: tuple[int, ...]


def matches(names: Sequence[str], error: StatesError) -> bool:
    """Whether one of the names stands for the error. None stands for ``States.Runtime``: it ends the execution.

    >>> matches(["States.ALL"], StatesError("CardDeclined")), matches(["States.ALL"], StatesError("States.Runtime"))
    (True, False)
    """
    if error.error == RUNTIME:
        return False
    if any(name in names for name in error.names):
        return True
    return ALL in names or (TASK_FAILED in names and error.error != TIMEOUT)


def another_attempt(
    retriers: Sequence[Retrier], error: StatesError, attempts: tuple[int, ...], chance: Callable[[], float]
) -> Again | None:
    """The next attempt, if the first retrier that matches has one left. Each counts for itself.

    ``chance`` draws a number from 0 to 1 for a retrier with jitter, and for no other.
    """
    for index, retrier in enumerate(retriers):
        if not matches(retrier.error_equals, error):
            continue
        counts = attempts or (0,) * len(retriers)
        if counts[index] >= retrier.max_attempts:
            return None
        delay = delay_seconds(retrier, counts[index])
        if retrier.jitter_strategy == FULL:
            delay *= chance()
        return Again(index, delay, (*counts[:index], counts[index] + 1, *counts[index + 1 :]))
    return None


def delay_seconds(retrier: Retrier, retries_before: int) -> float:
    """How long a retrier waits after ``retries_before`` of its retries, without jitter.

    >>> [delay_seconds(Retrier(["A"], interval_seconds=3, max_delay_seconds=10), count) for count in range(3)]
    [3.0, 6.0, 10.0]
    """
    most = LONGEST_DELAY_SECONDS if retrier.max_delay_seconds is None else float(retrier.max_delay_seconds)
    try:
        return min(float(retrier.interval_seconds) * float(retrier.backoff_rate) ** retries_before, most)
    except OverflowError:
        return most


def catcher_of(catchers: Sequence[Catcher], error: StatesError) -> tuple[int, Catcher] | None:
    """The first catcher that matches, and its place."""
    return next((each for each in enumerate(catchers) if matches(each[1].error_equals, error)), None)
