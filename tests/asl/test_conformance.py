"""The runner of conformance cases: it runs all of a folder, and says of each failure how it differs."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from tests.asl.conformance import known
from tests.asl.conformance.__main__ import main
from tests.asl.machines import passing, states, task

ROOT = Path(__file__).parents[2]
TASK = states("Pay", Pay=task("pay", Parameters={"cents.$": "$.c"}, ResultPath="$.paid"))


def case(definition, expected, **more):
    whole = {"kind": "execution", "name": "own::case", "type": "STANDARD", "expected_match": "exact", "input": {}}
    return whole | {"definition": definition, "expected": expected} | more


MOCK = {"state": "Pay", "kind": "LambdaFunctionSucceeded", "task_input": {"cents": 5}, "output": "ok"}
GOOD = [
    case(states("One", One=passing(Result={"a": 1})), {"status": "SUCCEEDED", "output": {"a": 1}}),
    case(
        TASK,
        {"status": "SUCCEEDED", "output": {"c": 5, "paid": "ok"}},
        input={"c": 5},
        task_mocks=[MOCK],
        states_entered=["Pay"],
        states_entered_ordered=True,
        state_outputs=[["Pay", {"c": 5, "paid": "ok"}]],
    ),
    case(
        states("Set", Set=passing(Assign={"x": 1}, Next="End"), End=passing()),
        {"status": "SUCCEEDED", "output": {}},
        assigned_variables={"Set": [{"x": 1}]},
        event_types=["ExecutionStarted", *2 * ["PassStateEntered", "PassStateExited"], "ExecutionSucceeded"],
    ),
    case(
        states("Try", Try=task("t", Retry=[{"ErrorEquals": ["E"], "IntervalSeconds": 3, "MaxAttempts": 1}])),
        {"status": "FAILED", "error": "E", "cause": "c", "retry_delays": [3]},
        task_mocks=2 * [{"state": "Try", "kind": "TaskFailed", "error": "E", "cause": "c"}],
    ),
    case(
        states("Wait", Wait={"Type": "Wait", "Seconds": 60, "End": True}) | {"TimeoutSeconds": 5},
        {"status": "TIMED_OUT"},
    ),
]
BAD = [
    (case(states("One", One=passing()), {"status": "SUCCEEDED", "output": {"a": 1}}), "output: expected"),
    (case(states("One", One=passing()), {"status": "FAILED", "error": "E"}), "status: expected FAILED"),
    (case(states("F", F={"Type": "Fail", "Error": "E"}), {"status": "FAILED", "error": "D"}), 'error: expected "D"'),
    (
        case(states("F", F={"Type": "Fail", "Error": "E", "Cause": "c"}), {"status": "FAILED", "cause": "d"}),
        'cause: expected "d"',
    ),
    (
        case(states("One", One=passing()), {"status": "SUCCEEDED"}, states_entered=["Two"]),
        'states entered: expected ["Two"]',
    ),
    (
        case(
            states("One", One=passing()),
            {"status": "SUCCEEDED"},
            event_types=["ExecutionStarted", "PassStateEntered", "ExecutionSucceeded"],
        ),
        "types of events: expected",
    ),
    (
        case(states("One", One=passing()), {"status": "SUCCEEDED"}, assigned_variables={"One": [{"x": 1}]}),
        "variables: expected",
    ),
    (
        case(TASK, {"status": "SUCCEEDED"}, input={"c": 6}, task_mocks=[MOCK]),
        "task input of 'Pay': expected {\"cents\": 5}",
    ),
    (case(TASK, {"status": "FAILED"}, input={"c": 5}, task_mocks=[]), "called once more than recorded"),
    (case({}, {}, kind="of the future"), "no check for the kind"),
]


def run(folder, capsys, cases):
    (folder / "cases.json").write_text(json.dumps(cases))
    status = main([str(folder), "-v"])
    return status, capsys.readouterr().out.splitlines()


def test_a_reason_is_told_with_the_difference_and_changes_no_score(tmp_path, capsys, monkeypatch):
    monkeypatch.setitem(known.REASONS, "own::case", "so it is")
    status, lines = run(tmp_path, capsys, [BAD[0][0]])
    assert lines[0].startswith("FAILED own::case: ")
    assert lines[1].strip() == "why: so it is"
    assert (status, lines[-1]) == (1, "passed 0 of 1")


def test_each_test_that_a_reason_names_is_there():
    named = {found for each in known.REASONS.values() for found in re.findall(r"(tests/\S+?\.py)::(\w+)", each)}
    assert named
    for file, name in named:
        assert f"def {name}(" in (ROOT / file).read_text(encoding="utf-8")


def test_cases_that_hold_pass(tmp_path, capsys):
    status, lines = run(tmp_path, capsys, GOOD)
    assert lines[-1] == f"passed {len(GOOD)} of {len(GOOD)}", lines
    assert status == 0


@pytest.mark.parametrize(("case", "told"), BAD)
def test_a_case_that_does_not_hold_is_listed_with_its_difference(tmp_path, capsys, case, told):
    status, lines = run(tmp_path, capsys, [case])
    assert lines[0].startswith("FAILED own::case: ")
    assert told in lines[0]
    assert lines[-1] == "passed 0 of 1"
    assert status == 1
