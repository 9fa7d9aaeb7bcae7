"""Durations as people write them: ``"90s"``, ``"1h30m"``, a ``timedelta``, or a number of seconds."""

from __future__ import annotations

import math
import re
from datetime import timedelta
from typing import Final

from holdfast.errors import InvalidInput

Duration = str | float | timedelta
"""The type of every public parameter for a length of time."""

UNIT_SECONDS: Final = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86_400.0, "w": 604_800.0}
LONGEST_SECONDS: Final = 3660 * 86_400.0
"""About ten years: anything longer is a mistake in a unit, not a wish."""

LONGEST_WAIT_SECONDS: Final = 366_000 * 86_400.0
"""A thousand years: the longest wait of a body by asyncio's own functions, which have no limit."""

LONGEST_TEXT_CHARACTERS: Final = 100
"""A longer text is not a duration. It is not parsed, so that a hostile one costs nothing."""

SHOWN_CHARACTERS: Final = 60
"""How much of a wrong duration a message shows."""

_PART: Final = r"([0-9]+(?:\.[0-9]+)?)\s*(ms|s|m|h|d|w)\s*"
_PARTS: Final = re.compile(_PART)
_WHOLE: Final = re.compile(rf"\s*(?:{_PART})+")


def seconds(duration: Duration) -> float:
    """The length in seconds.

    >>> seconds("1h30m"), seconds("250ms"), seconds(2), seconds(timedelta(minutes=1))
    (5400.0, 0.25, 2.0, 60.0)

    Raises ``InvalidInput`` for other types, ``None`` included, for text of another form, for negative lengths, NaN, and
    above ``LONGEST_SECONDS``.
    """
    match duration:
        case str():
            value = _parse(duration)
        case timedelta():
            value = duration.total_seconds()
        case int() | float() if not isinstance(duration, bool):
            value = duration
        case _:  # whatever its annotation says
            raise InvalidInput(
                f"a duration must be a number of seconds, a text such as '5m' or a timedelta, got {_shown(duration)}"
            )
    if not 0 <= value <= LONGEST_SECONDS:  # NaN fails too
        raise InvalidInput(f"a duration must be 0 to {LONGEST_SECONDS / 86_400:.0f} days, got {_shown(duration)}")
    return float(value)


def milliseconds(duration: Duration) -> int:
    """The length in whole milliseconds, rounded up, so that nothing comes early (G8)."""
    return math.ceil(round(seconds(duration) * 1000, 6))


def written(duration: Duration) -> str:
    """The duration as a text that is one, too, to the millisecond.

    >>> written("1h30m"), written(31_536_000), written(1.5)
    ('1h30m', '31536000s', '1500ms')
    """
    if isinstance(duration, str):
        return duration
    ms = milliseconds(duration)
    return f"{ms}ms" if ms % 1000 else f"{ms // 1000}s"


def checked_wait(seconds: float) -> float:
    """A wait of a body by asyncio: ``sleep``, ``timeout``, ``wait_for``; negative ones are over at once.

    Raises ``InvalidInput`` for NaN, and above ``LONGEST_WAIT_SECONDS``: its end could not be stored as a time.

    >>> checked_wait(0.5)
    0.5
    """
    if not seconds <= LONGEST_WAIT_SECONDS:
        raise InvalidInput(
            f"a body must wait for at most {LONGEST_WAIT_SECONDS / 86_400:,.0f} days, got {_shown(seconds)} s. For no "
            "limit at all give asyncio.timeout or wait_for None; to wait without end, wait for a signal"
        )
    return seconds


def _parse(text: str) -> float:
    if len(text) > LONGEST_TEXT_CHARACTERS or not _WHOLE.fullmatch(text):
        raise InvalidInput(
            f"{_shown(text[:SHOWN_CHARACTERS])} is no duration; write for example '250ms', '30s', '5m', '1h30m', '7d'"
        )
    return sum(float(number) * UNIT_SECONDS[unit] for number, unit in _PARTS.findall(text))


def _shown(given: object) -> str:
    """The given value, shortened for a message."""
    try:
        return repr(given)[:SHOWN_CHARACTERS]
    except ValueError:  # an integer of thousands of digits has no text
        return "a number with thousands of digits"
