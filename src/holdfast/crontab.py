"""Cron expressions: five fields, and the moments at which the wall clock of a time zone matches them.

``CronSchedule`` documents their meaning, also when the clocks change.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import UTC, date, datetime, time, timedelta, tzinfo
from types import MappingProxyType
from typing import Any, Final, NamedTuple
from zoneinfo import ZoneInfo

from holdfast.errors import InvalidInput

LONGEST_EXPRESSION: Final = 500
"""In characters. A list of every minute of the hour has 169."""

LONGEST_ZONE_CHARACTERS: Final = 64
"""Names of zones have half of that. Without the machine's data each part of a name is imported as a package."""

SHORTCUTS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "@yearly": "0 0 1 1 *",
        "@annually": "0 0 1 1 *",
        "@monthly": "0 0 1 * *",
        "@weekly": "0 0 * * 0",
        "@daily": "0 0 * * *",
        "@midnight": "0 0 * * *",
        "@hourly": "0 * * * *",
    }
)

_MINUTE: Final = timedelta(minutes=1)
_DAY: Final = timedelta(days=1)
_LONGEST_MONTHS: Final = (31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)


# ── Reading ─────────────────────────────────────────────────────────────────────────────────────────────────────────


class Times(NamedTuple):
    """A parsed expression; weekdays are 0 (Sunday) to 6.

    ``both_days``: day of the month and weekday must fit, else one of them. ``as_shown``: ticks are wherever the clock
    shows a time that fits, else when it first reaches or passes one.
    """

    minutes: frozenset[int]
    hours: frozenset[int]
    days: frozenset[int]
    months: frozenset[int]
    weekdays: frozenset[int]
    both_days: bool
    as_shown: bool

    def has_day(self, day: date) -> bool:
        """Whether there are ticks on this day."""
        fits = (day.day in self.days, day.isoweekday() % 7 in self.weekdays)
        return day.month in self.months and (all(fits) if self.both_days else any(fits))

    def days_from(self, day: date) -> Iterator[date]:
        """The days with ticks, from this one on, without end."""
        while True:
            if day.month not in self.months:
                day = (day.replace(day=1) + 32 * _DAY).replace(day=1)
                continue
            if self.has_day(day):
                yield day
            day += _DAY


class _Field(NamedTuple):
    name: str
    low: int
    high: int
    names: tuple[str, ...] = ()  # the first one is for `low`


_FIELDS: Final = (
    _Field("minute", 0, 59),
    _Field("hour", 0, 23),
    _Field("day of the month", 1, 31),
    _Field("month", 1, 12, ("JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC")),
    _Field("day of the week", 0, 7, ("SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT")),
)


def read(expression: str) -> Times:
    """Five fields or a shortcut. Raises ``InvalidInput`` for anything else, and for days that never come."""
    given: Any = expression  # users without a type checker may pass anything
    if not isinstance(given, str) or len(given) > LONGEST_EXPRESSION:
        raise InvalidInput(
            f"a cron expression must be a text of at most {LONGEST_EXPRESSION} characters, got {given!r:.60}"
        )
    shortcut = expression.strip().lower()
    if shortcut.startswith("@") and shortcut not in SHORTCUTS:
        raise InvalidInput(f"{expression!r} is no shortcut; write {', '.join(SHORTCUTS)} or five fields")
    texts = SHORTCUTS.get(shortcut, expression).split()
    if len(texts) != len(_FIELDS):
        raise InvalidInput(
            f"{expression!r} has {len(texts)} fields; write five: minute, hour, day of the month, month, day of the "
            "week, for example '0 3 * * MON-FRI' (no seconds and no year)"
        )
    try:
        minutes, hours, days, months, weekdays = map(_values, _FIELDS, texts)
    except InvalidInput as error:
        raise InvalidInput(f"cannot read {expression!r}: {error}") from None
    stars = [text.startswith("*") for text in texts]
    both_days = stars[2] or stars[4]
    if both_days and min(days) > max(_LONGEST_MONTHS[month - 1] for month in months):
        raise InvalidInput(f"{expression!r} is never due: no such month has a day {min(days)}")
    weekdays = frozenset(weekday % 7 for weekday in weekdays)
    return Times(minutes, hours, days, months, weekdays, both_days, as_shown=stars[0] or stars[1])


def _values(field: _Field, text: str) -> frozenset[int]:
    return frozenset(value for part in text.split(",") for value in _part(field, part))


def _part(field: _Field, part: str) -> range:
    body, slash, step_text = part.partition("/")
    start, dash, end = body.partition("-")
    if body == "*":
        low, high = field.low, field.high
    else:
        low = _value(field, start)
        high = _value(field, end) if dash else field.high if slash else low
    step = int(step_text) if _is_number(step_text) else 0 if slash else 1
    if low > high:
        raise InvalidInput(
            f"the range {part!r} of the {field.name} runs backwards; "
            f"write two, '{start}-{field.high},{field.low}-{end}'"
        )
    if not 1 <= step <= field.high:
        raise InvalidInput(
            f"the step in {part!r} of the {field.name} is no number from 1 to {field.high}; write for example '*/2', "
            "or use a fixed period instead of a cron expression"
        )
    return range(low, high + 1, step)


def _value(field: _Field, text: str) -> int:
    if text.upper() in field.names:
        return field.low + field.names.index(text.upper())
    if _is_number(text) and field.low <= int(text) <= field.high:
        return int(text)
    names = f" or {field.names[0]} to {field.names[-1]}" if field.names else ""
    raise InvalidInput(
        f"{text!r} is no {field.name}; write {field.low} to {field.high}{names}, a range 'a-b', a step '*/n', a list "
        "'a,b', or '*' ('?', 'L', 'W' and '#' of other crons are not known here)"
    )


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdecimal()


def zone_of(tz: str) -> tzinfo:
    """The time zone of this name, from the machine's data or the package ``tzdata``; raises ``InvalidInput``."""
    if tz == "UTC":
        return UTC  # needs no data
    try:
        return ZoneInfo(tz[: LONGEST_ZONE_CHARACTERS + 1])  # which is not a zone if it was cut off
    except (LookupError, ValueError, OSError, TypeError, AttributeError) as error:
        raise InvalidInput(
            f"{str(tz)[:LONGEST_ZONE_CHARACTERS]!r} is no time zone known here; write a name such as "
            "'Europe/Amsterdam' or 'UTC'. If the name is right, this machine lacks the data of time zones: install the "
            "package tzdata"
        ) from error


# ── Ticking ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def next_tick(times: Times, zone: tzinfo, after: datetime) -> datetime:
    """The first tick strictly after ``after``; both are in UTC."""
    return _next_shown(times, zone, after) if times.as_shown else _next_passed(times, zone, after)


def _next_passed(times: Times, zone: tzinfo, after: datetime) -> datetime:
    """Wall times in order: then the moments at which they are first reached or passed are in order too."""
    here = _shown(after, zone)
    walls = (
        datetime.combine(day, time(hour, minute))
        for day in times.days_from(here.date())
        for hour in sorted(times.hours)
        for minute in sorted(times.minutes)
    )
    return next(moment for wall in walls if wall > here and (moment := _first_reached(wall, zone)) > after)


def _first_reached(wall: datetime, zone: tzinfo) -> datetime:
    while True:
        moment = wall.replace(tzinfo=zone, fold=0).astimezone(UTC)
        if _shown(moment, zone) == wall:
            return moment
        wall += _MINUTE  # skipped by the clocks: the first moment after the gap


def _next_shown(times: Times, zone: tzinfo, after: datetime) -> datetime:
    """Real time, minute by minute, with leaps over times that cannot match.

    A long leap ends two days before the next day that fits, because no clock is put forward by more than one; none is
    made while yesterday fits, because a clock put back at midnight shows yesterday again. A short leap, to the next
    minute or hour worth a look, is made if the clock was not changed on the way.
    """
    moment = after.replace(second=0, microsecond=0) + _MINUTE
    while True:
        wall = _shown(moment, zone)
        fits = wall.hour in times.hours and times.has_day(wall.date())
        if fits and wall.minute in times.minutes:
            return moment
        days = next(times.days_from(wall.date() - _DAY)) - wall.date()
        if days > 2 * _DAY:
            moment += days - 2 * _DAY
            continue
        minute = min((each for each in times.minutes if fits and each > wall.minute), default=60)
        leap = (minute - wall.minute) * _MINUTE
        moment += leap if _shown(moment + leap, zone) == wall + leap else _MINUTE


def _shown(moment: datetime, zone: tzinfo) -> datetime:
    return moment.astimezone(zone).replace(tzinfo=None)
