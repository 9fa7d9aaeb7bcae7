"""A few inputs for each target: ``make fuzz`` feeds 200,000."""

from __future__ import annotations

import pytest
from hypothesis import strategies as st
from tests.fuzz.feeding import TooExpensiveError, feed
from tests.fuzz.targets import TARGETS, Target, each

FEW = 60


@pytest.mark.parametrize("target", TARGETS, ids=[each.name for each in TARGETS])
def test_hostile_inputs_meet_errors_of_our_own(target: Target) -> None:
    fed = feed(target, FEW if target.weight > 2 else FEW // 4)
    assert fed.inputs


def test_another_error_is_found():
    def fails(number: int) -> None:
        if number > 1000:
            raise KeyError(number)

    with pytest.raises(KeyError, match="1001"):
        feed(Target("plant", st.integers(), 1, each(fails)), 500)


def test_an_input_that_costs_too_much_is_found(monkeypatch):
    monkeypatch.setattr("tests.fuzz.feeding.LONGEST_SECONDS", -1.0)
    with pytest.raises(TooExpensiveError):
        feed(Target("plant", st.integers(), 1, each(lambda _: None)), 5)
