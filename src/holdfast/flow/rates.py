"""Rates: how often something may begin, as one integer per rate (the generic cell rate algorithm).

The integer is the *theoretical arrival time*: when the next one would be due if all came evenly. It is in microseconds,
so that thousands a second are exact, and no bucket of tokens has to be filled.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from holdfast.duration import Duration, milliseconds
from holdfast.errors import InvalidInput

MOST_PER_SECOND: Final = 1_000_000
"""Microseconds cannot tell more apart."""


@dataclass(frozen=True, slots=True)
class Rate:
    """A number in a time: ``Rate(100, per="1m")``, spread evenly, so that no minute has more than 100.

    ``burst`` is how many may begin at the same moment after a pause. Any time of ``per`` has at most
    ``count + burst - 1``. Raises ``InvalidInput``.

    >>> Rate(5, per="1s", burst=5).count
    5
    """

    count: int
    per: Duration
    burst: int = 1

    def __post_init__(self) -> None:
        for name in ("count", "burst"):
            given: Any = getattr(self, name)  # users without a type checker may pass anything
            if type(given) is not int or given < 1:
                raise InvalidInput(f"the {name} of a rate is a whole number of at least 1, not {given!r}")
        per_ms = milliseconds(self.per)
        if per_ms < 1:
            raise InvalidInput("the time of a rate is at least 1 ms; to have no limit, give no rate")
        if self.count * 1000 > per_ms * MOST_PER_SECOND:
            raise InvalidInput(f"a rate is at most {MOST_PER_SECOND:,} a second, not {self.count} per {self.per!r}")

    @property
    def interval_us(self) -> int:
        """The time between two of them, in microseconds, rounded up: there are never more than was asked for."""
        return -(-milliseconds(self.per) * 1000 // self.count)


NEVER_BEFORE: Final = 0
"""The arrival time of what has not begun yet."""


def free_at(rate: Rate, arrival_us: int) -> int:
    """When the next one may begin (microseconds), given the arrival time so far.

    >>> free_at(Rate(1, per="1s", burst=3), 5_000_000)
    3000000
    """
    return max(0, arrival_us - rate.interval_us * (rate.burst - 1))


def spent(rate: Rate, arrival_us: int, now_us: int, amount: int = 1) -> int:
    """The arrival time after ``amount`` of them have begun now. The caller has seen that ``free_at`` is past.

    More than the burst at once is a debt, which is waited for afterwards: nothing is too large to begin at all.

    >>> spent(Rate(1, per="1s"), NEVER_BEFORE, 7_000_000)
    8000000
    """
    return max(arrival_us, now_us) + rate.interval_us * amount
