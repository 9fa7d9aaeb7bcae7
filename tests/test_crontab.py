"""Cron expressions: what can be written, what is refused and how, and the ticks of every clock, changed or not."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from holdfast import crontab
from holdfast.errors import InvalidInput

MINUTE = timedelta(minutes=1)


def ticks(expression: str, tz: str, after: str, count: int) -> list[str]:
    """The next ticks, as that clock shows them; ``after`` is in UTC unless it says otherwise."""
    times, zone = crontab.read(expression), crontab.zone_of(tz)
    moment, shown = datetime.fromisoformat(after).astimezone(UTC), []
    for _ in range(count):
        moment = crontab.next_tick(times, zone, moment)
        shown.append(moment.astimezone(zone).isoformat(" ", "minutes"))
    return shown


# ── Reading ─────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("text", "minutes"),
    [
        ("7", {7}),
        ("*", set(range(60))),
        ("10-13", {10, 11, 12, 13}),
        ("5-5", {5}),
        ("*/20", {0, 20, 40}),
        ("*/59", {0, 59}),
        ("50-58/4", {50, 54, 58}),
        ("50/4", {50, 54, 58}),
        ("1,2,30-31,*/30", {0, 1, 2, 30, 31}),
        ("007", {7}),
    ],
)
def test_a_field_is_a_list_of_numbers_ranges_and_steps(text: str, minutes: set[int]) -> None:
    assert crontab.read(f"{text} * * * *").minutes == minutes


@pytest.mark.parametrize(
    ("text", "weekdays"),
    [
        ("SUN", {0}),
        ("7", {0}),
        ("0", {0}),
        ("mon-Fri", {1, 2, 3, 4, 5}),
        ("5-7", {0, 5, 6}),
        ("SAT,SUN", {0, 6}),
        ("MON/2", {0, 1, 3, 5}),
        ("*", {0, 1, 2, 3, 4, 5, 6}),
        ("*/2", {0, 2, 4, 6}),
    ],
)
def test_weekdays_have_names_and_two_sundays(text: str, weekdays: set[int]) -> None:
    assert crontab.read(f"0 0 * * {text}").weekdays == weekdays


def test_months_have_names() -> None:
    assert crontab.read("0 0 1 JAN,jun-aug,12 *").months == {1, 6, 7, 8, 12}


@pytest.mark.parametrize(("shortcut", "fields"), crontab.SHORTCUTS.items())
def test_shortcuts_stand_for_five_fields(shortcut: str, fields: str) -> None:
    assert crontab.read(f" {shortcut.upper()} ") == crontab.read(fields)


@pytest.mark.parametrize(
    ("expression", "complaint"),
    [
        ("", "has 0 fields; write five"),
        ("* * * *", "has 4 fields; write five"),
        ("0 0 12 * * ?", "has 6 fields; write five.*no seconds and no year"),
        ("@reboot", "no shortcut; write @yearly"),
        ("60 * * * *", "'60' is no minute; write 0 to 59, a range"),
        ("* 24 * * *", "'24' is no hour; write 0 to 23"),
        ("* * 0 * *", "'0' is no day of the month; write 1 to 31"),
        ("* * * 13 *", "'13' is no month; write 1 to 12 or JAN to DEC"),
        ("* * * MON *", "'MON' is no month"),
        ("* * * * 8", "'8' is no day of the week; write 0 to 7 or SUN to SAT"),
        ("* * * * Monday", "'Monday' is no day of the week"),
        ("-1 * * * *", "'' is no minute"),
        ("1,,2 * * * *", "'' is no minute"),
        ("1- * * * *", "'' is no minute"),
        ("*-5 * * * *", r"'\*' is no minute"),
        ("٣ * * * *", "'٣' is no minute"),
        ("1.5 * * * *", "'1.5' is no minute"),
        ("0 0 L * *", r"'L' is no day of the month.*'L', 'W' and '#' of other crons"),
        ("0 0 ? * MON", r"'\?' is no day of the month"),
        ("0 0 * * MON#2", "'MON#2' is no day of the week"),
        ("0 22-2 * * *", "range '22-2' of the hour runs backwards; write two, '22-23,0-2'"),
        ("0 0 * * SAT-SUN", "backwards; write two, 'SAT-7,0-SUN'"),
        ("*/0 * * * *", r"step in '\*/0' of the minute is no number from 1 to 59"),
        ("*/90 * * * *", r"step in '\*/90' of the minute.*or use a fixed period"),
        ("*/ * * * *", r"step in '\*/' of the minute"),
        ("*/2/3 * * * *", r"step in '\*/2/3' of the minute"),
        ("0 0 31 2 *", "never due: no such month has a day 31"),
        ("0 0 30-31 FEB *", "never due: no such month has a day 30"),
        ("0 0 31 4,6,9,11 */2", "never due: no such month has a day 31"),
        ("* " * 500, "a text of at most 500 characters"),
        (17, "a text of at most 500 characters, got 17"),
        (None, "a text of at most 500 characters, got None"),
    ],
)
def test_what_cannot_be_read_is_refused_and_says_what_to_write(expression: str, complaint: str) -> None:
    with pytest.raises(InvalidInput, match=f"(?s){complaint}"):
        crontab.read(expression)


@pytest.mark.parametrize("way_to_write_it", ["SAT-7,0-SUN", "6-7", "SAT,SUN"])
def test_what_the_message_about_a_range_says_works(way_to_write_it: str) -> None:
    assert crontab.read(f"0 0 * * {way_to_write_it}").weekdays == {0, 6}


UNKNOWN = [
    "Mars/Base",
    "",
    "Europe",
    "../etc/passwd",
    "/etc/passwd",
    "a\0b",
    "\udc00",
    5,
    None,
    "a/" * 3_000,
    "a." * 3_000,
]


@pytest.mark.parametrize("tz", UNKNOWN, ids=range(len(UNKNOWN)))
def test_an_unknown_zone_is_refused_and_the_package_named(tz: str) -> None:
    with pytest.raises(InvalidInput, match="is no time zone known here.*'Europe/Amsterdam'.*the package tzdata"):
        crontab.zone_of(tz)


def test_utc_needs_no_data(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(crontab, "ZoneInfo", None)
    assert crontab.zone_of("UTC") is UTC


# ── Days ────────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("expression", "days"),
    [
        ("0 0 13 * FRI", ["2026-01-02", "2026-01-09", "2026-01-13", "2026-01-16"]),  # one of the two
        ("0 0 */31 * FRI", ["2026-05-01", "2027-01-01", "2027-10-01", "2028-09-01"]),  # a star: both
        ("0 0 13 * */5", ["2026-02-13", "2026-03-13", "2026-09-13", "2026-11-13"]),  # a star: both
        ("0 0 31 * *", ["2026-01-31", "2026-03-31", "2026-05-31", "2026-07-31"]),
        ("0 0 29 2 *", ["2028-02-29", "2032-02-29", "2036-02-29", "2040-02-29"]),
        ("0 0 29 2 */7", ["2032-02-29", "2060-02-29", "2088-02-29", "2128-02-29"]),  # over 2100, which has none
        ("0 0 30 2 MON", ["2026-02-02", "2026-02-09", "2026-02-16", "2026-02-23"]),
    ],
)
def test_day_of_the_month_and_weekday(expression: str, days: list[str]) -> None:
    assert [each[:10] for each in ticks(expression, "UTC", "2026-01-01T12:00+00:00", 4)] == days


# ── When the clocks change ──────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("expression", "tz", "after", "expected"),
    [
        pytest.param(
            "30 2 * * *",
            "Europe/Amsterdam",
            "2026-03-28T00:00+00:00",
            ["2026-03-28 02:30+01:00", "2026-03-29 03:00+02:00", "2026-03-30 02:30+02:00"],
            id="a time that is skipped is due right after the gap",
        ),
        pytest.param(
            "0,30 2,3 * * *",
            "Europe/Amsterdam",
            "2026-03-29T00:00+00:00",
            ["2026-03-29 03:00+02:00", "2026-03-29 03:30+02:00", "2026-03-30 02:00+02:00"],
            id="several at one moment are one",
        ),
        pytest.param(
            "30 2 * * *",
            "Europe/Amsterdam",
            "2026-10-24T12:00+00:00",
            ["2026-10-25 02:30+02:00", "2026-10-26 02:30+01:00"],
            id="a time that occurs twice is due the first time",
        ),
        pytest.param(
            "30 2 * * *",
            "Europe/Amsterdam",
            "2026-10-25T02:10+01:00",
            ["2026-10-26 02:30+01:00"],
            id="asked in the repeated hour, it is not due again",
        ),
        pytest.param(
            "*/30 2 * * *",
            "Europe/Amsterdam",
            "2026-03-28T12:00+00:00",
            ["2026-03-30 02:00+02:00", "2026-03-30 02:30+02:00"],
            id="frequent ticks of an hour that is skipped are not there",
        ),
        pytest.param(
            "*/30 2 * * *",
            "Europe/Amsterdam",
            "2026-10-24T12:00+00:00",
            ["2026-10-25 02:00+02:00", "2026-10-25 02:30+02:00", "2026-10-25 02:00+01:00", "2026-10-25 02:30+01:00"],
            id="frequent ticks of an hour that occurs twice are there twice",
        ),
        pytest.param(
            "0 * * * *",
            "America/New_York",
            "2026-03-08T00:30-05:00",
            ["2026-03-08 01:00-05:00", "2026-03-08 03:00-04:00", "2026-03-08 04:00-04:00"],
            id="hourly is every real hour, forwards",
        ),
        pytest.param(
            "0 * * * *",
            "America/New_York",
            "2026-11-01T00:30-04:00",
            ["2026-11-01 01:00-04:00", "2026-11-01 01:00-05:00", "2026-11-01 02:00-05:00"],
            id="hourly is every real hour, backwards",
        ),
        pytest.param(
            "30 1 * * *",
            "America/New_York",
            "2026-11-01T00:30-04:00",
            ["2026-11-01 01:30-04:00", "2026-11-02 01:30-05:00"],
            id="New York, once",
        ),
        pytest.param(
            "15 2 * * *",
            "Australia/Lord_Howe",
            "2026-10-03T12:00+00:00",
            ["2026-10-04 02:30+11:00", "2026-10-05 02:15+11:00"],
            id="half an hour is skipped",
        ),
        pytest.param(
            "45 1 * * *",
            "Australia/Lord_Howe",
            "2026-04-04T12:00+00:00",
            ["2026-04-05 01:45+11:00", "2026-04-06 01:45+10:30"],
            id="half an hour occurs twice",
        ),
        pytest.param(
            "45 * * * *",
            "Australia/Lord_Howe",
            "2026-04-04T14:00+00:00",
            ["2026-04-05 01:45+11:00", "2026-04-05 01:45+10:30", "2026-04-05 02:45+10:30"],
            id="half an hour occurs twice, as shown",
        ),
        pytest.param(
            "0,15 * * * *",
            "Australia/Lord_Howe",
            "2026-10-04T01:10+10:30",
            ["2026-10-04 01:15+10:30", "2026-10-04 03:00+11:00", "2026-10-04 03:15+11:00"],
            id="half an hour is skipped, as shown",
        ),
        pytest.param(
            "0 2 * * *",
            "Asia/Kolkata",
            "2026-03-28T12:00+00:00",
            ["2026-03-29 02:00+05:30", "2026-03-30 02:00+05:30"],
            id="no clock is changed in India",
        ),
        pytest.param(
            "0 12 30 12 *",
            "Pacific/Apia",
            "2011-12-29T00:00+00:00",
            ["2011-12-31 00:00+14:00", "2012-12-30 12:00+14:00"],
            id="a whole day is skipped",
        ),
        pytest.param(
            "30 23 31 10 *",
            "America/St_Johns",
            "2009-11-01T12:00+00:00",
            ["2010-10-31 23:30-02:30", "2011-10-31 23:30-02:30"],
            id="an ordinary autumn in Newfoundland",
        ),
        pytest.param(
            "*/30 0 1 4 *",
            "Europe/Amsterdam",
            "2026-01-15T23:45+00:00",
            ["2026-04-01 00:00+02:00", "2026-04-01 00:30+02:00", "2027-04-01 00:00+02:00"],
            id="a day far away is met at its start",
        ),
        pytest.param(
            "0 * 31 12 *",
            "Pacific/Apia",
            "2011-12-01T09:30+00:00",
            ["2011-12-31 00:00+14:00", "2011-12-31 01:00+14:00"],
            id="even when the day before it is skipped",
        ),
        pytest.param(
            "*/30 23 6 11 *",
            "America/St_Johns",
            "2009-11-08T12:00+00:00",
            ["2010-11-06 23:00-02:30", "2010-11-06 23:30-02:30", "2010-11-06 23:30-03:30", "2011-11-06 23:00-03:30"],
            id="yesterday evening occurs twice",
        ),
    ],
)
def test_when_the_clocks_change(expression: str, tz: str, after: str, expected: list[str]) -> None:
    assert ticks(expression, tz, after, len(expected)) == expected


# ── Against a walk, minute by minute ────────────────────────────────────────────────────────────────────────────────

CHANGES = [
    ("Europe/Amsterdam", "2026-03-29T01:00+00:00"),
    ("Europe/Amsterdam", "2026-10-25T01:00+00:00"),
    ("America/New_York", "2026-03-08T07:00+00:00"),
    ("America/New_York", "2026-11-01T06:00+00:00"),
    ("Australia/Lord_Howe", "2026-04-04T15:00+00:00"),
    ("Australia/Lord_Howe", "2026-10-03T15:30+00:00"),
    ("America/St_Johns", "2010-03-14T03:31+00:00"),  # one minute past midnight
    ("America/St_Johns", "2010-11-07T02:31+00:00"),  # so that yesterday comes back
    ("America/Havana", "2026-03-08T05:00+00:00"),  # there is no midnight
    ("America/Santiago", "2026-04-05T03:00+00:00"),  # back to eleven at midnight
    ("Africa/Casablanca", "2026-02-15T02:00+00:00"),  # wintertime in Ramadan
    ("Pacific/Apia", "2011-12-30T10:00+00:00"),  # a day is skipped
    ("Asia/Kolkata", "2026-03-29T01:00+00:00"),  # none
    ("UTC", "2026-02-28T00:00+00:00"),  # none, ever
]


@dataclass(frozen=True)
class Piece:
    """One part of a field, as written and as meant."""

    text: str
    values: frozenset[int]


@st.composite
def pieces(draw: st.DrawFn, low: int, high: int) -> Piece:
    first = draw(st.integers(low, high))
    last = draw(st.integers(first, high))
    step = draw(st.integers(1, high))
    star = Piece("*", frozenset(range(low, high + 1)))
    return draw(
        st.sampled_from(
            [
                star,
                Piece(f"*/{step}", frozenset(each for each in star.values if (each - low) % step == 0)),
                Piece(str(first), frozenset([first])),
                Piece(f"{first}-{last}", frozenset(range(first, last + 1))),
                Piece(f"{first}-{last}/{step}", frozenset(range(first, last + 1, step))),
                Piece(f"{first}/{step}", frozenset(range(first, high + 1, step))),
            ]
        )
    )


def fields(low: int, high: int) -> st.SearchStrategy[Piece]:
    return st.lists(pieces(low, high), min_size=1, max_size=3).map(
        lambda parts: Piece(",".join(each.text for each in parts), frozenset().union(*(each.values for each in parts)))
    )


@dataclass(frozen=True)
class Cron:
    """The meaning of an expression, told once more and plainly."""

    minute: Piece
    hour: Piece
    day: Piece
    month: Piece
    weekday: Piece

    @property
    def expression(self) -> str:
        return " ".join(each.text for each in (self.minute, self.hour, self.day, self.month, self.weekday))

    @property
    def one_day_field_is_enough(self) -> bool:
        return self.day.text[0] != "*" and self.weekday.text[0] != "*"

    def has_days(self) -> bool:
        """Whether a leap year has a day for it."""
        year = [date(2028, 1, 1) + timedelta(days=count) for count in range(366)]
        return self.one_day_field_is_enough or any(
            each.day in self.day.values and each.month in self.month.values for each in year
        )

    def fits(self, wall: datetime) -> bool:
        day = wall.day in self.day.values
        weekday = wall.isoweekday() in self.weekday.values or wall.isoweekday() % 7 in self.weekday.values
        return (
            wall.minute in self.minute.values
            and wall.hour in self.hour.values
            and wall.month in self.month.values
            and ((day or weekday) if self.one_day_field_is_enough else (day and weekday))
        )

    def walk(self, tz: str, start: datetime, end: datetime) -> Iterator[datetime]:
        """Every minute in UTC: what the clock shows, or what it reaches or passes for the first time."""
        as_shown = "*" in (self.minute.text[0], self.hour.text[0])
        moment, zone = start, ZoneInfo(tz)
        furthest = moment.astimezone(zone).replace(tzinfo=None)
        while moment < end:
            moment += MINUTE
            wall = moment.astimezone(zone).replace(tzinfo=None)
            if as_shown:
                passed = [wall]
            else:
                passed = [furthest + count * MINUTE for count in range(1, (wall - furthest) // MINUTE + 1)]
                furthest = max(furthest, wall)
            if any(self.fits(each) for each in passed):
                yield moment


STAR = Piece("*", frozenset(range(60)))
CRONS = st.builds(
    Cron,
    minute=fields(0, 59),
    hour=fields(0, 23),
    day=st.just(STAR) | fields(1, 31),
    month=st.just(STAR) | fields(1, 12),
    weekday=st.just(STAR) | fields(0, 7),
)


def at_minute(minute: int, hour: int) -> Cron:
    return Cron(Piece(str(minute), frozenset([minute])), Piece(str(hour), frozenset([hour])), STAR, STAR, STAR)


@settings(max_examples=100)
@given(CRONS, st.sampled_from(CHANGES), st.integers(-20 * 60, 4 * 60), st.integers(0, 59_999))
@example(Cron(STAR, STAR, STAR, STAR, STAR), CHANGES[4], -30, 1)
@example(at_minute(30, 2), CHANGES[0], -90, 0)
@example(at_minute(30, 2), CHANGES[1], 10, 0)
@example(at_minute(45, 1), CHANGES[4], 0, 59_999)
def test_the_ticks_are_those_of_a_walk_in_utc(cron: Cron, change: tuple[str, str], minutes: int, ms: int) -> None:
    tz, at = change[0], datetime.fromisoformat(change[1])
    after, end = at + minutes * MINUTE + timedelta(milliseconds=ms), at + timedelta(hours=26)
    if not cron.has_days():
        with pytest.raises(InvalidInput, match="never due"):
            crontab.read(cron.expression)
        return
    times = crontab.read(cron.expression)
    expected = [each for each in cron.walk(tz, at - timedelta(hours=30), end) if each > after]
    found, moment = list[datetime](), after
    while (moment := crontab.next_tick(times, crontab.zone_of(tz), moment)) <= end:
        assert not found or moment > found[-1]
        found.append(moment)
    assert found == expected
