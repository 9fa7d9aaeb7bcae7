"""Rates against a count by hand: no window has more than was promised, and none is held back for no reason."""

from __future__ import annotations

from bisect import bisect_left

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.errors import InvalidInput
from holdfast.flow.rates import NEVER_BEFORE, Rate, free_at, spent

rates = st.builds(Rate, st.integers(1, 20), st.sampled_from(["7ms", "1s", "13s"]), st.integers(1, 6))
gaps = st.lists(st.integers(0, 3_000_000), min_size=1, max_size=60)


def begun(rate: Rate, gaps: list[int]) -> list[int]:
    """The times at which those began that asked at these gaps, and went away if it was too early."""
    arrival, now, times = NEVER_BEFORE, 10**12, list[int]()
    for gap in gaps:
        now += gap
        if free_at(rate, arrival) <= now:
            arrival = spent(rate, arrival, now)
            times.append(now)
    return times


@given(rates, gaps)
def test_no_window_has_more_than_count_and_burst(rate: Rate, gaps: list[int]) -> None:
    times, window = begun(rate, gaps), rate.interval_us * rate.count
    for place, start in enumerate(times):
        assert bisect_left(times, start + window) - place <= rate.count + rate.burst - 1


@given(rates)
def test_after_a_pause_exactly_the_burst_begins_at_once(rate: Rate) -> None:
    assert len(begun(rate, [10**9, *[0] * 10])) == min(rate.burst, 11)


@given(rates, st.integers(1, 100))
def test_whoever_waits_for_the_time_told_begins(rate: Rate, count: int) -> None:
    arrival, now = NEVER_BEFORE, 10**12
    for _ in range(count):
        now = max(now, free_at(rate, arrival))
        arrival = spent(rate, arrival, now)
    waited = now - 10**12
    assert waited == max(0, count - rate.burst) * rate.interval_us


def test_more_than_the_burst_at_once_is_a_debt() -> None:
    rate = Rate(10, per="1s")
    assert free_at(rate, spent(rate, NEVER_BEFORE, 10**9, amount=30)) == 10**9 + 3_000_000


def test_a_rate_that_does_not_divide_is_rounded_down() -> None:
    assert Rate(7, per="1s").interval_us == 142_858


@pytest.mark.parametrize(
    ("count", "per", "burst"),
    [(0, "1s", 1), (True, "1s", 1), (1, "0s", 1), (1, "1s", 0), (2000, "1ms", 1), (1, "x", 1)],
)
def test_what_is_no_rate_is_refused(count: int, per: str, burst: int) -> None:
    with pytest.raises(InvalidInput):
        Rate(count, per, burst)
