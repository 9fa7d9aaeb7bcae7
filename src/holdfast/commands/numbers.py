"""Numbers of queues and of limits: as commands have them, as people write them, and as the audit tells of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from msgspec import UNSET, Struct, UnsetType

from holdfast.flow.rates import Rate

NO_LIMIT: Final = "none"


class GivenRate(Struct, frozen=True, forbid_unknown_fields=True):
    """A rate in a command."""

    count: int
    per: str | float
    burst: int = 1

    def rate(self) -> Rate:
        """The rate. Raises ``InvalidInput``."""
        return Rate(self.count, self.per, self.burst)


def told_change(changed: str, numbers: Mapping[str, int | GivenRate | UnsetType | None]) -> str:
    """What a row of the audit tells of a change of numbers."""
    told = (f"{name}={_told(number)}" for name, number in numbers.items() if number is not UNSET)
    return " ".join((changed, *told))


def _told(number: int | GivenRate | UnsetType | None) -> str:
    """A number as a row of the audit tells it, and as the command line takes it."""
    match number:
        case None:
            return NO_LIMIT
        case GivenRate(count, per, burst):
            return f"{count}/{per}" + (f"/{burst}" if burst != 1 else "")
        case _:
            return str(number)


def rate_in(text: str) -> GivenRate:
    """A rate as people write it: ``100/1m``, or ``5/1s/10`` for a burst of ten. Raises ``ValueError``.

    >>> rate_in("5/1s/10")
    GivenRate(count=5, per='1s', burst=10)
    """
    count, per, *burst = text.split("/")
    (most,) = burst or ("1",)
    return GivenRate(int(count), per, int(most))


def number_in(name: str, text: str) -> int | GivenRate | None:
    """A number of a queue as people write it; ``none`` is no limit. Raises ``ValueError``."""
    if text == NO_LIMIT:
        return None
    return rate_in(text) if name.startswith("rate") else int(text)


def given_rate(given: GivenRate | UnsetType | None) -> Rate | UnsetType | None:
    """A rate in a command, if there is one. Raises ``InvalidInput``."""
    return given.rate() if isinstance(given, GivenRate) else given
