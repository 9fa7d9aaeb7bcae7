"""Data that are too large or nest too deep: where they fail, as what, and that the history says so."""

from __future__ import annotations

import json
from contextlib import nullcontext, suppress
from typing import Any

import pytest
from tests.asl.machines import app_in_virtual_time, ended, passing, states, task

import holdfast as hf
from holdfast.app import LIMIT_BYTES
from holdfast.asl.events import Event
from holdfast.asl.frames import Bounds
from holdfast.asl.reading import events_of
from holdfast.asl.states import mapping
from holdfast.asl.validation import validate
from holdfast.testing import PATIENT, VirtualClock, run_virtual

SMALL_BYTES = 20_000


def nested(levels: int, innermost: Any = 0) -> Any:
    return json.loads("[" * levels + json.dumps(innermost) + "]" * levels)


def ran(
    definition: dict[str, Any],
    *,
    input: Any = None,
    bounds: Bounds | None = None,
    limit_bytes: int = SMALL_BYTES,
    fails: bool = False,
) -> tuple[Any, list[Event]]:
    """What one execution comes to on an app with a small limit, and its events."""
    app = hf.App("asl", home="memory://", clock=VirtualClock(), limits=PATIENT, limit_bytes=limit_bytes)
    machine = app.state_machine(
        "m", definition, tasks={"big": lambda _given: "x" * SMALL_BYTES, "deep": lambda _given: nested(65)}
    )
    machine.bounds = bounds or machine.bounds

    async def main() -> tuple[Any, list[Event]]:
        async with app.worker():
            handle = await machine.start(input, id="e")
            with suppress(hf.ExecutionFailed) if fails else nullcontext():
                answer = None
                answer = await ended(handle)
            _, events = await events_of(app.runtime(), "wf#m#e")
        return answer, events

    return run_virtual(main)


DOUBLED = "States.Format('{}{}', $.text, $.text)"
DEEPER = {"deeper.$": "$.text"}
TOO_LARGE = "The state/task 'Grow' returned a result with a size exceeding the maximum number of bytes service limit."
TOO_DEEP = "The state/task 'Grow' returned a result that nests more than 64 levels deep."


@pytest.mark.parametrize(
    ("grow", "input", "cause"),
    [
        ({"text.$": DOUBLED}, {"text": "x" * 15_000}, TOO_LARGE),
        (DEEPER, {"text": nested(62)}, None),
        (DEEPER, {"text": nested(63)}, None),
        ({"a": DEEPER}, {"text": nested(63)}, TOO_DEEP),
    ],
    ids=["large", "63 levels", "64 levels", "65 levels"],
)
@pytest.mark.parametrize("then", [{}, {"Next": "Last"}], ids=["as the output", "on the way"])
def test_a_value_that_cannot_be_carried_on_fails_the_state_that_makes_it(grow, input, cause, then):
    machine = states("Grow", Grow=passing(Parameters=grow, **then), Last=passing(Result=1))
    if not then:
        del machine["States"]["Last"]
    answer, events = ran(machine, input=input)
    last = events[-1]
    if cause is None:
        assert last.type == "ExecutionSucceeded"
        return
    assert answer == ("States.DataLimitExceeded", cause)
    assert [each.type for each in events] == ["ExecutionStarted", "PassStateEntered", "ExecutionFailed"]
    assert last.details == {"error": "States.DataLimitExceeded", "cause": cause}


@pytest.mark.parametrize(
    ("result", "cause"), [("big", "over the limit of 20,000 bytes"), ("deep", "nests more than 64 levels deep")]
)
def test_a_result_of_a_task_that_is_too_large_or_too_deep_is_caught_by_its_name(result, cause):
    caught = task(result, Catch=[{"ErrorEquals": ["States.DataLimitExceeded"], "Next": "Caught"}], Next="Caught")
    answer, _ = ran(states("Call", Call=caught, Caught=passing()))
    assert answer["Error"] == "States.DataLimitExceeded"
    assert cause in answer["Cause"]


ITEMS = {"ProcessorConfig": {"Mode": "DISTRIBUTED"}, "StartAt": "I", "States": {"I": {"Type": "Succeed"}}}
EACH = states("Each", Each={"Type": "Map", "ItemProcessor": ITEMS, "End": True})
BEGUN = ["ExecutionStarted", "MapStateEntered", "MapStateStarted", "MapRunStarted", "MapRunFailed"]


@pytest.mark.parametrize(("items", "selections"), [(400, 0), (40, 3)])
def test_a_map_of_more_than_a_map_run_can_be_given_ends_before_it_is_built(items, selections, monkeypatch):
    selected: list[int] = []
    monkeypatch.setattr(mapping, "INPUT_LIMIT_BYTES", 1_000)
    monkeypatch.setattr(mapping, "selected", lambda _visit, _all, item: selected.append(item.index) or "x" * 200)
    (error, cause), events = ran(EACH, input=[0] * items)
    assert error == "States.DataLimitExceeded"
    assert "the items of the distributed Map take more than 1,000 bytes as JSON" in cause
    assert max(selected, default=-1) == selections - 1
    assert [each.type for each in events] == [*BEGUN, "MapStateFailed", "ExecutionFailed"]


def test_a_map_run_that_ends_by_an_error_of_another_kind_fails_in_the_history(monkeypatch):
    def broken(*_: object) -> None:
        raise ValueError("a bug")

    monkeypatch.setattr(mapping, "selected", broken)
    with pytest.raises(hf.ExecutionFailed, match="a bug"):
        ran(EACH, input=[0])
    events = ran(EACH, input=[0], fails=True)[1]
    assert [each.type for each in events] == [*BEGUN, "ExecutionFailed"]
    assert events[-2].details == {"error": "ValueError", "cause": "a bug"}


def test_a_machine_that_cannot_continue_as_new_says_so():
    copied = states("Copy", Copy=passing(Next="Last"), Last=passing())
    large = {"text": "x" * (LIMIT_BYTES * 2 // 3)}  # once as the input, and once as what the next state gets
    (error, cause), events = ran(copied, input=large, bounds=Bounds(1, 1), limit_bytes=LIMIT_BYTES)
    assert error == "States.DataLimitExceeded"
    assert cause.startswith("The execution has to continue as new and cannot: ")
    assert events[-1].type == "ExecutionFailed"


def field(name: str, language: str = "JSONPath", **state: Any) -> tuple[dict[str, Any], str]:
    return {"QueryLanguage": language, "StartAt": "S", "States": {"S": {"End": True, **state}}}, f"/States/S/{name}"


DEEP = nested(65)
TASK = {"Type": "Task", "Resource": "arn:aws:lambda:us-east-1:123456789012:function:f"}
MAP = {"Type": "Map", "ItemProcessor": {"StartAt": "I", "States": {"I": {"Type": "Succeed"}}}}


@pytest.mark.parametrize(
    ("definition", "at"),
    [
        field("Result", Type="Pass", Result=DEEP),
        field("Parameters/a", Type="Pass", Parameters={"a": DEEP}),
        field("Assign/a", Type="Pass", Assign={"a": DEEP}),
        field("ResultSelector/a", **TASK, ResultSelector={"a": DEEP}),
        field("ItemSelector/a", **MAP, ItemSelector={"a": DEEP}),
        field("Arguments/a", "JSONata", **TASK, Arguments={"a": DEEP}),
        field("Output", "JSONata", Type="Pass", Output=DEEP),
        field("Items", "JSONata", **MAP, Items=DEEP),
        field("Catch/0/Output", "JSONata", **TASK, Catch=[{"ErrorEquals": ["E"], "Next": "S", "Output": DEEP}]),
    ],
    ids=lambda given: given if isinstance(given, str) else "",
)
def test_a_literal_that_no_state_could_hand_on_is_refused(definition, at):
    text = json.dumps(definition, indent=1)
    (found,) = validate(text)
    assert (found.code, found.severity) == ("TOO_DEEPLY_NESTED", "ERROR")
    assert found.pointer.startswith(at)
    assert text.splitlines()[found.line - 1].strip().startswith(("[", "0"))
    assert found.line > 10
    with pytest.raises(hf.InvalidInput, match="TOO_DEEPLY_NESTED"):
        app_in_virtual_time().state_machine("m", definition, tasks={"f": print})


def test_a_literal_may_nest_as_deep_as_a_value():
    definition, _ = field("Result", Type="Pass", Result=nested(64))
    assert validate(json.dumps(definition)) == []
