"""Functions that do tasks: the step of each is made once, and never taken for that of another."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from tests.asl.machines import app_in_virtual_time, ended, passing, states, task

import holdfast as hf
from holdfast.asl import targets
from holdfast.testing import run_virtual


def made_for(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, targets.Limits]]:
    """What steps are made for, from now on."""
    made: list[tuple[str, targets.Limits]] = []
    make = targets.step_for

    def counted(target: Any, resource: str, limits: targets.Limits) -> Any:
        made.append((resource, limits))
        return make(target, resource, limits)

    monkeypatch.setattr(targets, "step_for", counted)
    return made


def answers(machine: hf.asl.StateMachine, app: hf.App, *inputs: Any) -> list[Any]:
    async def main() -> list[Any]:
        async with app.worker():
            return [await machine(each) for each in inputs]

    return run_virtual(main)


def test_the_step_of_a_task_is_made_once_for_all_executions(monkeypatch: pytest.MonkeyPatch) -> None:
    made = made_for(monkeypatch)
    app = app_in_virtual_time()
    machine = app.state_machine("till", states("Pay", Pay=task("pay")), tasks={"pay": lambda given: given["cents"]})
    assert answers(machine, app, *({"cents": cents} for cents in range(10))) == list(range(10))
    assert len(made) == 1


def test_states_of_one_resource_with_functions_of_their_own_keep_them() -> None:
    app = app_in_virtual_time()
    both = states("First", First=task("pay", Next="Then", ResultPath="$.first"), Then=task("pay", ResultPath="$.then"))
    machine = app.state_machine("till", both, tasks={"First": lambda _: "one", "Then": lambda _: "two"})
    assert answers(machine, app, {}, {}) == [{"first": "one", "then": "two"}] * 2


def test_a_limit_that_a_path_sets_is_that_of_each_execution(monkeypatch: pytest.MonkeyPatch) -> None:
    made = made_for(monkeypatch)
    app = app_in_virtual_time()
    limited = states("Pay", Pay=task("pay", TimeoutSecondsPath="$.patience"))
    machine = app.state_machine("till", limited, tasks={"pay": lambda given: given["patience"]})
    assert answers(machine, app, {"patience": 5}, {"patience": 7}, {"patience": 5}) == [5, 7, 5]
    assert [limits.timeout_seconds for _, limits in made] == [5, 7]


def within(inner: dict[str, Any], **more: Any) -> tuple[Any, list[str], list[str]]:
    """What a machine comes to whose task is another one: also its operations, and the machines that have run."""
    app = app_in_virtual_time()
    asked = app.state_machine("inner", inner, tasks={"pay": lambda given: f"paid {given}", "rest": hang})
    outer = app.state_machine("outer", states("Ask", Ask=task("inner", **more)), tasks={"inner": asked})

    async def main() -> tuple[Any, list[str], list[str]]:
        async with app.worker():
            handle = await outer.start(17, id="o")
            answer = await ended(handle)
            ran = [each.workflow for each in (await app.executions()).executions]
            return answer, [event.name for event in await handle.history()], sorted(ran)

    return run_virtual(main)


async def hang(_given: Any) -> None:
    await asyncio.sleep(1_000)


def test_a_machine_that_does_a_task_is_an_execution_of_its_own() -> None:
    answer, operations, ran = within(states("Pay", Pay=task("pay")))
    assert answer == "paid 17"
    assert operations == ["Ask#0/inner#0"], "a child, and no step around it"
    assert ran == ["inner", "outer"]


def test_a_task_fails_as_the_machine_that_does_it() -> None:
    declined = states("No", No={"Type": "Fail", "Error": "Declined", "Cause": "no funds"})
    assert within(declined)[0] == ("Declined", "no funds")
    caught = [{"ErrorEquals": ["Declined"], "Next": "Caught"}]
    app = app_in_virtual_time()
    inner = app.state_machine("inner", declined)
    outer = states("Ask", Ask=task("inner", Catch=caught), Caught=passing(OutputPath="$.Cause"))
    assert answers(app.state_machine("outer", outer, tasks={"inner": inner}), app, {}) == ["no funds"]


def test_a_machine_that_takes_longer_than_its_task_is_stopped() -> None:
    answer, _, _ = within(states("Rest", Rest=task("rest")), TimeoutSeconds=5)
    assert answer == ("States.Timeout", None)


def test_only_so_many_steps_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(targets, "KEPT_STEPS", 2)
    made = made_for(monkeypatch)
    app = app_in_virtual_time()
    limited = states("Pay", Pay=task("pay", TimeoutSecondsPath="$"))
    machine = app.state_machine("till", limited, tasks={"pay": lambda given: given})
    assert answers(machine, app, 1, 2, 3, 3, 2, 1) == [1, 2, 3, 3, 2, 1]
    assert [limits.timeout_seconds for _, limits in made] == [1, 2, 3, 1]


GIVEN: list[Any] = [{"cents": 1}, {"given": 1}, {}, [], [1], [[1], [2]], "text", 5]


def test_one_parameter_gets_the_whole_input_whatever_it_looks_like() -> None:
    """What a person types may be read in several ways (``Signature.parse``); the input of a state may not."""
    app = app_in_virtual_time()

    @app.step
    async def untyped(given):  # type: ignore[no-untyped-def]
        return given

    @app.step
    def blocking(given: Any) -> Any:
        return given

    @app.workflow
    async def child(given):  # type: ignore[no-untyped-def]
        return given

    for kind in (untyped, blocking, child):
        machine = app.state_machine(f"by {kind.name}", states("Do", Do=task("do")), tasks={"do": kind})
        assert answers(machine, app, *GIVEN) == GIVEN, kind.name


def test_one_parameter_of_a_type_gets_the_whole_input_or_none() -> None:
    app = app_in_virtual_time()

    @app.step
    def of_list(given: list[Any]) -> list[Any]:
        return given

    @app.step
    def of_dict(given: dict[str, int]) -> dict[str, int]:
        return given

    @app.step
    def of_several(*given: Any) -> list[Any]:
        return list(given)

    @app.step
    def of_fields(**given: Any) -> dict[str, Any]:
        return given

    def does(step: Any, *inputs: Any) -> list[Any]:
        caught = [{"ErrorEquals": ["InvalidInput"], "Next": "Caught"}]
        definition = states("Do", Do=task("do", Catch=caught), Caught=passing(Result="refused"))
        return answers(app.state_machine(step.name, definition, tasks={"do": step}), app, *inputs)

    assert does(of_list, [1], [[1]], [], 5) == [[1], [[1]], [], "refused"]
    assert does(of_dict, {"given": 1}, {}, 5, [{}]) == [{"given": 1}, {}, "refused", "refused"]
    assert does(of_several, [1], 5) == [[[1]], [5]]
    assert does(of_fields, {"given": 1, "b": 2}, {}, 5) == [{"given": 1, "b": 2}, {}, "refused"]
