"""A machine that converts without remarks, and the workflow that it becomes, end in the same way."""

from __future__ import annotations

from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.asl import machines as run_as
from tests.asl.test_long_runs import machines, tasks_of
from tests.asl.topython import converted as run_as_python

import holdfast as hf

GIVEN = {"n": 0, "items": [1, 2, 3]}


def as_machine(definition: dict[str, Any], input: Any, /, **tasks: Any) -> Any:
    """What the machine itself answers, or the name of its error."""
    answer = run_as.outcome(definition, input, **tasks)
    return ("failed with", answer[0]) if isinstance(answer, tuple) else answer


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(machines())
def test_a_random_machine_and_its_workflow_answer_the_same_and_call_the_same(definition):
    assert run_as_python.converted(definition).remarks == ()
    ours, theirs = [], []
    answer = run_as_python.outcome(definition, GIVEN, **tasks_of(ours))
    assert answer == as_machine(definition, GIVEN, **tasks_of(theirs))
    assert sorted(ours) == sorted(theirs)


# ── Machines that lead anywhere ─────────────────────────────────────────────────────────────────────────────────────


@st.composite
def tangled(draw: st.DrawFn) -> dict[str, Any]:
    """A machine whose states lead to any others: joins, loops, loops within loops, and what is none of these."""
    count = draw(st.integers(2, 6))
    names = [f"S{number}" for number in range(count)]
    anywhere = st.sampled_from([*names, "End"])
    made: dict[str, Any] = {"End": {"Type": "Succeed"}}
    for name in names:
        tick = {"Type": "Task", "Resource": "tick", "ResultPath": "$.n", "Next": draw(anywhere)}
        match draw(st.sampled_from(["tick", "tick", "catch", "choose", "fail"])):
            case "catch":
                catch = [{"ErrorEquals": ["Even"], "ResultPath": "$.why", "Next": draw(anywhere)}]
                catch += [{"ErrorEquals": ["Third"], "ResultPath": None, "Next": draw(anywhere)}]
                made[name] = tick | {"Resource": "odd", "Catch": catch}
            case "choose":
                limits = draw(st.lists(st.integers(1, 12), max_size=3))
                rules = [{"Variable": "$.n", "NumericLessThan": n, "Next": draw(anywhere)} for n in limits]
                made[f"{name}?"] = {"Type": "Choice", "Choices": rules, "Default": draw(anywhere)}
                made[name] = tick | {"Next": f"{name}?" if rules else draw(anywhere)}
            case "fail":
                made[name] = {"Type": "Fail", "Error": draw(st.sampled_from(["Even", "Not.A.Name"])), "Cause": name}
            case _:
                made[name] = tick
    reached = reachable(made)
    return {"StartAt": "S0", "States": {name: state for name, state in made.items() if name in reached}}


def reachable(made: dict[str, Any]) -> set[str]:
    found, waiting = set[str](), ["S0"]
    while waiting:
        name = waiting.pop()
        if name not in found:
            found.add(name)
            state = made.get(name, {})
            waiting += [state[key] for key in ("Next", "Default") if key in state]
            waiting += [each["Next"] for each in (*state.get("Catch", ()), *state.get("Choices", ()))]
    return found


def counting() -> dict[str, Any]:
    """Tasks that count their calls, fail now and then, and for good after a while, so that every loop ends."""
    calls: list[Any] = []

    def tick(given: Any) -> int:
        calls.append(given["n"])
        if len(calls) > 12:
            raise hf.asl.Error("Tired", str(given))
        return given["n"] + 1

    def odd(given: Any) -> int:
        number = tick(given)
        if len(calls) % 3 == 0:
            raise hf.asl.Error("Third", "")
        if number % 2 == 0:
            raise hf.asl.Error("Even", str(number))
        return number

    return {"tick": tick, "odd": odd}


@settings(max_examples=50, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much])
@given(tangled())
def test_any_order_of_states_is_kept(definition):
    if not any(each["Type"] in ("Fail", "Succeed") for each in definition["States"].values()):
        return  # a machine needs an end
    answer = run_as_python.outcome(definition, {"n": 0}, **counting())
    assert answer == as_machine(definition, {"n": 0}, **counting())
