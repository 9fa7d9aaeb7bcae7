"""Each planted bug of the interpreter is found by the test that is there for its rule."""

from __future__ import annotations

import logging
from collections.abc import Callable

import pytest
from tests.asl import (
    test_aborted,
    test_branches,
    test_definitions,
    test_long_runs,
    test_machine,
    test_map_runs,
    test_redrives,
)
from tests.asl.plants import PLANTS

import holdfast as hf

# Bodies that a planted bug leaves behind complain when they are collected.
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")

FOUND_BY: dict[str, Callable[[], object]] = {
    "retriers share one count": test_machine.test_each_retrier_counts_for_itself,
    "delays do not grow": test_machine.test_an_error_is_known_by_its_class_and_retried_after_growing_delays,
    "the last catcher takes the error": test_machine.test_the_first_catcher_that_matches_takes_the_error,
    "States.ALL catches States.Runtime": lambda: test_machine.test_nothing_catches_what_the_interpreter_cannot_evaluate(
        "States.ALL"
    ),
    "a caught error replaces the input": (
        test_machine.test_a_catcher_gets_the_error_beside_the_input_that_the_state_had
    ),
    "outputs of branches are in another order": (
        test_branches.test_the_result_has_the_outputs_of_the_branches_in_their_order
    ),
    "outputs of iterations are in another order": (
        test_branches.test_each_iteration_gets_what_the_selector_makes_of_its_item
    ),
    "one iteration too many at a time": test_branches.test_an_inline_map_runs_at_most_forty_at_a_time,
    "branches do not see variables": test_branches.test_a_branch_reads_outer_variables_and_keeps_its_own,
    "a branch continues as new": test_long_runs.test_an_open_branch_is_never_left,
    "a continuation forgets variables": test_long_runs.test_variables_and_the_order_of_fields_survive,
    "a continuation counts retries twice": test_long_runs.test_retries_are_counted_across_runs,
    "a continuation forgets redrives": test_redrives.test_redrives_are_counted_across_runs_and_the_start_stays,
    "a continuation forgets the start": test_redrives.test_redrives_are_counted_across_runs_and_the_start_stays,
    "redrives are not counted": test_redrives.test_the_context_object_counts_redrives_from_where_each_came,
    "a redrive rewrites the history": test_redrives.test_a_history_keeps_what_failed_and_goes_on_behind_each_redrive,
    "a call of a machine is told apart by its definition": lambda: (
        test_definitions.test_a_parent_goes_on_when_the_machine_that_it_has_started_is_declared_anew("awaits")
    ),
    "nothing tells of aborted states": test_aborted.test_iterations_are_aborted_with_their_states,
    "a Map run tolerates one failure less": (
        lambda: test_map_runs.test_a_map_run_that_continues_as_new_keeps_results_and_failures(7)
    ),
    "a Map run forgets its failures as it continues": (
        lambda: test_map_runs.test_a_map_run_that_continues_as_new_keeps_results_and_failures(2)
    ),
    "a Map run skips an item as it continues": (
        lambda: test_map_runs.test_a_map_run_that_continues_as_new_keeps_results_and_failures(3)
    ),
    "a failed Map run has no origins": (
        lambda: test_map_runs.test_a_redrive_tries_the_items_again_that_failed_and_no_others(0)
    ),
    "Map runs share their children": test_map_runs.test_a_second_visit_and_a_second_attempt_are_map_runs_of_their_own,
    "one child too many at a time": test_map_runs.test_children_stop_with_their_machine,
    "express children have no limit": test_map_runs.test_an_express_item_has_five_minutes,
}


def test_every_plant_has_a_test_that_finds_it():
    assert PLANTS.keys() == FOUND_BY.keys()


@pytest.mark.parametrize("name", PLANTS)
def test_a_planted_bug_is_found(name, caplog):
    caplog.set_level(logging.CRITICAL)  # failed executions are logged, and are to be expected here
    FOUND_BY[name]()
    with PLANTS[name](), pytest.raises((AssertionError, TimeoutError, hf.ExecutionFailed)):
        FOUND_BY[name]()
