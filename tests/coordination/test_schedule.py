"""Schedules: the next tick, and which ticks to run after a pause."""

from __future__ import annotations

from datetime import datetime

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.coordination.schedule import (
    GRACE_MS,
    LONGEST_PERIOD_MS,
    CronSchedule,
    Every,
    Missed,
    Schedule,
    next_after,
    ticks_to_run,
)
from holdfast.errors import InvalidInput

HOUR = 3_600_000
DAY = 24 * HOUR
NIGHTLY = CronSchedule("30 2 * * *", tz="Europe/Amsterdam")
SCHEDULES = [
    Every(period_ms=HOUR, first_ms=5 * HOUR),
    CronSchedule("@hourly"),
    CronSchedule("0 * * * *", tz="Australia/Lord_Howe"),
    CronSchedule("*/7 3-5 * * MON-FRI", tz="America/New_York"),
    NIGHTLY,
]
ANY_SCHEDULE = st.sampled_from(SCHEDULES)
MOMENTS = st.integers(1_700_000_000_000, 1_800_000_000_000)


def ms(text: str) -> int:
    return round(datetime.fromisoformat(text).timestamp() * 1000)


def ticks_between(schedule: Schedule, last_ms: int, now_ms: int) -> list[int]:
    ticks = list[int]()
    while (tick := next_after(schedule, ticks[-1] if ticks else last_ms)) <= now_ms:
        ticks.append(tick)
    return ticks


# ── The next tick ───────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("after", "tick"),
    [(-5000, 250), (249, 250), (250, 1250), (251, 1250), (1249, 1250), (1250, 2250), (10**15, 10**15 + 250)],
)
def test_a_period_starts_at_its_first_time_and_does_not_drift(after: int, tick: int) -> None:
    assert next_after(Every(period_ms=1000, first_ms=250), after) == tick


@given(st.integers(1, LONGEST_PERIOD_MS), st.integers(-(10**15), 10**15), st.integers(-(10**15), 10**15))
def test_a_tick_of_a_period_is_the_first_of_its_kind(period: int, first: int, after: int) -> None:
    tick = next_after(Every(period_ms=period, first_ms=first), after)
    assert tick > after and tick >= first
    assert (tick - first) % period == 0
    assert tick - period <= after or tick == first


@pytest.mark.parametrize("period", [0, -1, LONGEST_PERIOD_MS + 1, 1.5, True, "1s", None])
def test_a_period_that_makes_no_sense_is_refused(period: int) -> None:
    with pytest.raises(InvalidInput, match="period_ms must be a whole number from 1 to"):
        Every(period_ms=period, first_ms=0)


def test_a_first_time_that_makes_no_sense_is_refused() -> None:
    with pytest.raises(InvalidInput, match="first_ms must be a moment in whole milliseconds since the epoch, got 0.5"):
        Every(period_ms=1, first_ms=0.5)  # type: ignore[arg-type]


def test_a_cron_schedule_is_checked_when_it_is_made() -> None:
    with pytest.raises(InvalidInput, match="cannot read '61 \\* \\* \\* \\*': '61' is no minute; write 0 to 59"):
        CronSchedule("61 * * * *")
    with pytest.raises(InvalidInput, match="'Europe/Amsterdm' is no time zone known here"):
        CronSchedule("@daily", tz="Europe/Amsterdm")


@pytest.mark.parametrize(
    ("schedule", "after", "tick"),
    [
        (NIGHTLY, "2026-03-29T02:59:59.999+02:00", "2026-03-29T03:00+02:00"),  # 01:59:59.999, in winter time
        (NIGHTLY, "2026-03-29T03:00+02:00", "2026-03-30T02:30+02:00"),
        (NIGHTLY, "2026-10-25T02:29:59.999+02:00", "2026-10-25T02:30+02:00"),
        (NIGHTLY, "2026-10-25T02:30+02:00", "2026-10-26T02:30+01:00"),
        (NIGHTLY, "2026-10-25T02:29:59.999+01:00", "2026-10-26T02:30+01:00"),
        (CronSchedule("* * * * *"), "2026-01-01T00:00:59.999+00:00", "2026-01-01T00:01+00:00"),
        (CronSchedule("* * * * *"), "2026-01-01T00:01+00:00", "2026-01-01T00:02+00:00"),
        (CronSchedule("* * * * *"), "1969-12-31T23:59:00.001+00:00", "1970-01-01T00:00+00:00"),
    ],
)
def test_the_next_tick_is_strictly_after_to_the_millisecond(schedule: Schedule, after: str, tick: str) -> None:
    assert next_after(schedule, ms(after)) == ms(tick)


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_a_schedule_survives_typed_json(schedule: Schedule) -> None:
    assert msgspec.json.decode(msgspec.json.encode(schedule), type=Schedule) == schedule


def test_a_stored_schedule_is_checked_when_it_is_read() -> None:
    with pytest.raises(msgspec.ValidationError, match="never due"):
        msgspec.json.decode(b'{"type":"cron","expression":"0 0 31 2 *","tz":"UTC"}', type=Schedule)


# ── Which ticks to run ──────────────────────────────────────────────────────────────────────────────────────────────

HOURLY = Every(period_ms=HOUR, first_ms=0)


@pytest.mark.parametrize("missed", Missed)
def test_nothing_is_due_a_millisecond_early(missed: Missed) -> None:
    assert ticks_to_run(HOURLY, 0, HOUR - 1, missed, 9) == ((), HOUR)


@pytest.mark.parametrize("missed", Missed)
@pytest.mark.parametrize("late", [0, 1, GRACE_MS - 1, GRACE_MS])
def test_a_tick_on_time_is_run_whatever_is_done_about_missed_ones(missed: Missed, late: int) -> None:
    assert ticks_to_run(HOURLY, 0, HOUR + late, missed, 9) == ((HOUR,), 2 * HOUR)


@pytest.mark.parametrize("missed", Missed)
def test_a_tick_is_not_run_again(missed: Missed) -> None:
    assert ticks_to_run(HOURLY, HOUR, HOUR, missed, 9) == ((), 2 * HOUR)
    assert ticks_to_run(HOURLY, HOUR, HOUR + 1, missed, 9) == ((), 2 * HOUR)


@pytest.mark.parametrize("missed", Missed)
def test_a_clock_put_back_runs_nothing(missed: Missed) -> None:
    assert ticks_to_run(HOURLY, 5 * HOUR, 2 * HOUR, missed, 9) == ((), 6 * HOUR)


@pytest.mark.parametrize(
    ("missed", "ticks"),
    [(Missed.SKIP, ()), (Missed.ONCE, (HOUR,)), (Missed.ALL, (HOUR,))],
)
def test_one_tick_a_millisecond_past_its_grace(missed: Missed, ticks: tuple[int, ...]) -> None:
    assert ticks_to_run(HOURLY, 0, HOUR + GRACE_MS + 1, missed, 9) == (ticks, 2 * HOUR)


@pytest.mark.parametrize(
    ("missed", "grace_ms", "ticks"),
    [
        (Missed.SKIP, 0, (4 * HOUR,)),
        (Missed.SKIP, DAY, (4 * HOUR,)),
        (Missed.ONCE, 0, (4 * HOUR,)),
        (Missed.ALL, 0, (HOUR, 2 * HOUR, 3 * HOUR, 4 * HOUR)),
    ],
)
def test_many_missed_and_one_due_now(missed: Missed, grace_ms: int, ticks: tuple[int, ...]) -> None:
    assert ticks_to_run(HOURLY, 0, 4 * HOUR, missed, 4, grace_ms=grace_ms) == (ticks, 5 * HOUR)


def test_without_grace_a_millisecond_is_late() -> None:
    assert ticks_to_run(HOURLY, 0, HOUR + 1, Missed.SKIP, 9, grace_ms=0) == ((), 2 * HOUR)


def test_all_runs_the_oldest_and_leaves_the_rest_for_the_next_turn() -> None:
    last, turns = 0, list[tuple[int, ...]]()
    while True:
        ticks, due = ticks_to_run(HOURLY, last, 7 * HOUR + 1, Missed.ALL, 3)
        turns.append(ticks)
        if due > 7 * HOUR + 1:
            break
        last = due - 1
    assert turns == [(HOUR, 2 * HOUR, 3 * HOUR), (4 * HOUR, 5 * HOUR, 6 * HOUR), (7 * HOUR,)]
    assert due == 8 * HOUR


@pytest.mark.parametrize(
    ("missed", "expected"),
    [
        (Missed.SKIP, []),
        (Missed.ONCE, ["2026-10-25T02:30+02:00"]),
        (Missed.ALL, ["2026-10-23T02:30+02:00", "2026-10-24T02:30+02:00", "2026-10-25T02:30+02:00"]),
    ],
)
def test_asked_in_an_hour_that_occurs_twice(missed: Missed, expected: list[str]) -> None:
    answer = ticks_to_run(NIGHTLY, ms("2026-10-22T12:00+02:00"), ms("2026-10-25T02:30+01:00"), missed, 9)
    assert answer == (tuple(map(ms, expected)), ms("2026-10-26T02:30+01:00"))


@pytest.mark.parametrize("missed", Missed)
def test_a_tick_in_an_hour_that_is_skipped_is_on_time_right_after_it(missed: Missed) -> None:
    answer = ticks_to_run(NIGHTLY, ms("2026-03-28T02:30+01:00"), ms("2026-03-29T03:00+02:00"), missed, 9)
    assert answer == ((ms("2026-03-29T03:00+02:00"),), ms("2026-03-30T02:30+02:00"))


def test_a_year_of_missed_minutes_is_not_walked(monkeypatch: pytest.MonkeyPatch) -> None:
    looks = list[int]()

    def counted(schedule: Schedule, after_ms: int) -> int:
        looks.append(after_ms)
        return next_after(schedule, after_ms)

    monkeypatch.setattr("holdfast.coordination.schedule.next_after", counted)
    now = ms("2026-06-01T12:00:30+02:00")
    answer = ticks_to_run(CronSchedule("* * * * *"), now - 365 * DAY, now, Missed.ONCE, 1)
    assert answer == ((now - 30_000,), now + 30_000)
    assert len(looks) < 50


@given(ANY_SCHEDULE, MOMENTS, st.integers(0, 20 * DAY), st.sampled_from(Missed), st.integers(1, 50))
def test_the_ticks_are_those_of_a_walk(schedule: Schedule, last: int, pause: int, missed: Missed, limit: int) -> None:
    now = last + pause
    walked = ticks_between(schedule, last, now)
    ticks, due = ticks_to_run(schedule, last, now, missed, limit)
    match missed:
        case Missed.ALL:
            assert list(ticks) == walked[:limit]
        case Missed.ONCE:
            assert list(ticks) == walked[-1:]
        case Missed.SKIP:
            assert list(ticks) == [tick for tick in walked[-1:] if now - tick <= GRACE_MS]
    assert due == next_after(schedule, ticks[-1] if missed is Missed.ALL and ticks else now)
    assert due == next_after(schedule, due - 1), "the time to ask again is a tick"


@given(st.integers(1, 5), st.integers(-5, 5), st.integers(0, 40))
def test_the_latest_of_close_ticks_is_found(period: int, first: int, now: int) -> None:
    schedule = Every(period_ms=period, first_ms=first)
    ticks, _ = ticks_to_run(schedule, -10, now, Missed.ONCE, 1)
    assert list(ticks) == ticks_between(schedule, -10, now)[-1:]


@given(ANY_SCHEDULE, MOMENTS, st.lists(st.integers(0, 2 * DAY), min_size=1, max_size=8), st.integers(1, 5))
def test_turns_at_any_times_lose_and_double_nothing(
    schedule: Schedule, start: int, pauses: list[int], limit: int
) -> None:
    ran, last, now = list[int](), start, start
    for pause in pauses:
        now += pause
        due = now
        while due <= now:
            ticks, due = ticks_to_run(schedule, last, now, Missed.ALL, limit)
            ran += ticks
            last = due - 1
    assert ran == ticks_between(schedule, start, now)


@pytest.mark.parametrize(("limit", "grace_ms"), [(0, 0), (-1, 0), (1, -1)])
def test_limits_that_make_no_sense_are_refused(limit: int, grace_ms: int) -> None:
    with pytest.raises(InvalidInput, match="limit must be at least 1 and grace_ms at least 0"):
        ticks_to_run(HOURLY, 0, 0, Missed.ALL, limit, grace_ms=grace_ms)


def test_a_policy_that_is_none_is_refused_and_its_name_is_one() -> None:
    with pytest.raises(InvalidInput, match="missed must be one of skip, once, all, got 'some'"):
        ticks_to_run(HOURLY, 0, 0, "some", 1)  # type: ignore[arg-type]
    assert ticks_to_run(HOURLY, 0, 2 * HOUR, "all", 9) == ((HOUR, 2 * HOUR), 3 * HOUR)  # type: ignore[arg-type]
