"""Each rule of replay under changed code is needed: without it, the matrix or the made-up changes find a violation."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

import pytest
from tests.simulation import changed_plants as plants
from tests.simulation.test_changed_code import PAIRS, prove
from tests.workflows.changes.play import End, played
from tests.workflows.test_code_changes import ROWS

Bug = Callable[[], AbstractContextManager[object]]

IN_THE_MATRIX = (
    (plants.hasty_messages, "a step before a timed wait"),
    (plants.forgotten_steps, "a step removed"),
    (plants.moved_call_runs, "steps made concurrent"),
    (plants.renamed_step_runs, "a step renamed and its old name gone"),
    (plants.body_alone_is_the_version, "a step inserted in a helper"),
    (plants.body_alone_is_the_version, "a step inserted in a helper of a helper"),
    (plants.doubled_call_runs, "a call doubled"),
    (plants.one_more_signal, "a signal inserted"),
    (plants.unnoted_suspension, "a child gathered"),
    (plants.timers_of_any_length, "a sleep made longer"),
    (plants.timers_of_any_kind, "a sleep made a timeout elsewhere"),
    (plants.outcomes_of_any_arguments, "arguments changed"),
)

AMONG_THE_MADE_UP = (
    plants.forgotten_steps,
    plants.forgotten_pending,
    plants.early_patches,
    plants.tried_without_arguments,
    plants.forgotten_tries,
    plants.timers_of_any_length,
    plants.outcomes_of_any_arguments,
)


@pytest.fixture(autouse=True)
def _quiet(caplog: pytest.LogCaptureFixture) -> None:
    """That code is blocked is logged, and is to be expected here."""
    caplog.set_level(logging.CRITICAL)


@pytest.mark.parametrize(("bug", "name"), IN_THE_MATRIX, ids=lambda each: getattr(each, "__name__", ""))
def test_the_matrix_finds_a_rule_that_is_left_out(bug: Bug, name: str, tmp_path: Path) -> None:
    (row,) = [each for each in ROWS if each.name == name]
    with bug():
        tally = played(row, tmp_path)
    print(f"{bug.__name__}: {tally}: {tally.wrong[:1]}")
    assert tally.wrong or {end for end, count in tally.ends.items() if count} - {End.OVER} != row.ends


@pytest.mark.parametrize("bug", AMONG_THE_MADE_UP, ids=lambda bug: bug.__name__)
def test_made_up_changes_find_a_rule_that_is_left_out(bug: Bug) -> None:
    with bug(), pytest.raises(AssertionError) as found:
        prove(PAIRS, Counter())
    print(f"{bug.__name__}: {str(found.value)[-200:]}")
