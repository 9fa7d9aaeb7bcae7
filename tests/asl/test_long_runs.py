"""Machines that loop: they continue as new, and nothing of it shows but a short journal."""

from __future__ import annotations

import asyncio
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.asl.machines import LAMBDA, app_in_virtual_time, ended, passing, states, task

import holdfast as hf
from holdfast.asl.frames import Bounds
from holdfast.testing import run_virtual
from holdfast.workflows.history import load
from holdfast.workflows.record import partition_of
from holdfast.workflows.replay import looked_into

OFTEN = Bounds(operations=1, states=1)
SELDOM = Bounds(operations=10**9, states=10**9)


def counting(times: int) -> dict[str, Any]:
    """A loop that counts from 0, by a task."""
    again = {"Type": "Choice", "Choices": [{"Variable": "$.n", "NumericLessThan": times, "Next": "Add"}]}
    return states(
        "Add", Add=task("add", ResultPath="$.n", Next="Again"), Again=again | {"Default": "Done"}, Done=passing()
    )


def run(definition: dict[str, Any], input: Any, bounds: Bounds, **tasks: Any) -> tuple[Any, int]:
    """What an execution comes to, and how many runs it had before the last one."""
    app = app_in_virtual_time()
    machine = app.state_machine("m", definition, tasks=tasks)
    machine.bounds = bounds

    async def main() -> tuple[Any, int]:
        async with app.worker():
            handle = await machine.start(input, id="m-1")
            return await ended(handle), (await handle.status()).run

    return run_virtual(main)


def test_a_loop_continues_as_new_after_five_hundred_operations():
    answer, runs = run(counting(1_200), {"n": 0}, Bounds(), add=lambda given: given["n"] + 1)
    assert answer == {"n": 1_200}
    assert runs == 2


def test_a_loop_of_states_without_operations_continues_as_new_too():
    add = passing(Parameters={"n.$": "States.MathAdd($.n, 1)"}, Next="Again")
    again = {"Type": "Choice", "Choices": [{"Variable": "$.n", "NumericLessThan": 6_000, "Next": "Add"}]}
    answer, runs = run(states("Add", Add=add, Again=again | {"Default": "Done"}, Done=passing()), {"n": 0}, Bounds())
    assert answer == {"n": 6_000}
    assert runs == 2


def test_retries_are_counted_across_runs():
    calls = []

    def fail(_given):
        calls.append(1)
        raise hf.asl.Error("Down", "")

    retrying = task("fail", Retry=[{"ErrorEquals": ["Down"], "MaxAttempts": 5, "BackoffRate": 1}])
    answer, runs = run(states("Try", Try=retrying), {}, OFTEN, fail=fail)
    assert answer == ("Down", "")
    assert len(calls) == 6
    assert runs == 5


def test_variables_and_the_order_of_fields_survive():
    keep = passing(Assign={"kept": {"z": 1, "a": 2}}, Next="Work")
    show = passing(Parameters={"text.$": "States.JsonToString($kept)", "input.$": "States.JsonToString($)"})
    definition = states("Keep", Keep=keep, Work=task("work", Next="Show"), Show=show)
    answer, runs = run(definition, {}, OFTEN, work=lambda _given: {"y": 1, "b": 2})
    assert answer == {"text": '{"z":1,"a":2}', "input": '{"y":1,"b":2}'}
    assert runs == 2


def test_an_open_branch_is_never_left():
    branches = [
        states(f"One{letter}", **{f"One{letter}": task("add", Next=f"Two{letter}"), f"Two{letter}": task("add")})
        for letter in "AB"
    ]
    both = {"Type": "Parallel", "Branches": branches, "Next": "After"}
    answer, runs = run(states("Both", Both=both, After=passing()), 0, OFTEN, add=lambda n: n + 1)
    assert answer == [2, 2]
    assert runs == 1


def test_states_without_work_cost_no_write(sqlite_world):
    """A machine of Pass, Choice, Succeed and Fail is written at its start and at its end, as an empty workflow is. The
    first execution of all stores a large definition, too.
    """

    async def commits(definition):
        app = sqlite_world.app(f"app{len(definition['States'])}", limits=hf.Limits(sweep_seconds=1e5, lease_ms=10**9))
        machine = app.state_machine(f"m{len(definition['States'])}", definition)
        async with app.worker():
            await machine({"n": 1})
            store = app.runtime().home.transactions
            before = store.commits
            await machine({"n": 1})
            return store.commits - before

    many = {f"S{n}": passing(Assign={f"v{n}": n}, Next=f"S{n + 1}") for n in range(30)}
    choose = {"Type": "Choice", "Choices": [{"Variable": "$.n", "NumericEquals": 1, "Next": "End"}]}
    long = states("S0", **many, S30=choose, End={"Type": "Succeed"})
    assert asyncio.run(commits(long)) == asyncio.run(commits(states("Only", Only=passing())))


async def test_jitter_is_drawn_once(memory_world):
    """Each replay waits until the time that was drawn, and not until another."""
    retry = [{"ErrorEquals": ["States.ALL"], "IntervalSeconds": 300, "JitterStrategy": "FULL"}]

    def fail(_given):
        raise OSError("down")

    app = memory_world.app()
    machine = app.state_machine("m", states("Try", Try=task("fail", Retry=retry)), tasks={"fail": fail})
    async with app.worker():
        handle = await machine.start({}, id="m-1")
        while (await handle.status()).status != "SUSPENDED":
            await asyncio.sleep(0.01)
        found = await load(app.runtime().home.store, partition_of("m", "m-1"))
        due = set()
        for _ in range(3):
            with looked_into(found, found.entries, machine.workflow, app.registry.errors.rebuild) as body:
                body.begin()
                due |= {(id, request.due_at) for id, request in body.requested.items()}
    assert [id for id, _ in due] == ["Try#0/sleep#0"]


# ── Random machines ─────────────────────────────────────────────────────────────────────────────────────────────────

KINDS = ["pass", "work", "fail", "wait", "choice", "parallel", "map"]


@st.composite
def machines(draw: st.DrawFn, depth: int = 2, prefix: str = "S") -> dict[str, Any]:
    """A machine of a few states in a row; those of branches have names of their own."""
    kinds = draw(st.lists(st.sampled_from(KINDS if depth else KINDS[:5]), min_size=1, max_size=4))
    made: dict[str, Any] = {}
    for place, kind in enumerate(kinds):
        name, last = f"{prefix}{place}", place == len(kinds) - 1
        follow = {"End": True} if last else {"Next": f"{prefix}{place + 1}"}
        made[name] = _state(draw, kind, name, follow, depth)
        if kind == "choice":
            made[name].pop("End", None)
            made[name].pop("Next", None)
            made[name]["Default"] = follow.get("Next", f"{prefix}Z")
            made[name]["Choices"] = [{"Variable": "$.n", "NumericGreaterThan": 2, "Next": made[name]["Default"]}]
    if f"'{prefix}Z'" in str(made):
        made[f"{prefix}Z"] = passing()
    return {"StartAt": f"{prefix}0", "States": made}


def _state(draw: st.DrawFn, kind: str, name: str, follow: dict[str, Any], depth: int) -> dict[str, Any]:
    match kind:
        case "pass":
            assign = {f"v{name}": draw(st.integers(0, 9))} if draw(st.booleans()) else {}
            return {"Type": "Pass", "ResultPath": "$.p", "Result": draw(st.integers(0, 9)), "Assign": assign} | follow
        case "work" | "fail":
            retry = [{"ErrorEquals": ["Odd"], "MaxAttempts": draw(st.integers(0, 3)), "BackoffRate": 1}]
            then = follow.get("Next", f"{name.rstrip('0123456789')}Z")
            catch = [{"ErrorEquals": ["States.ALL"], "ResultPath": "$.e", "Next": then}]
            work = {"Type": "Task", "Resource": LAMBDA + kind, "ResultPath": "$.n"}
            return work | {"Retry": retry, "Catch": catch} | follow
        case "wait":
            return {"Type": "Wait", "Seconds": draw(st.integers(0, 3))} | follow
        case "choice":
            return {"Type": "Choice"}
        case "parallel":
            branches = [draw(machines(depth - 1, f"{name}x{letter}S")) for letter in "ab"]
            return {"Type": "Parallel", "Branches": branches, "ResultPath": "$.b"} | follow
        case _:
            inner = draw(machines(depth - 1, f"{name}xmS"))
            selector = {"n.$": "$$.Map.Item.Value"}
            limit = draw(st.integers(0, 2))
            whole = {"Type": "Map", "ItemProcessor": inner, "ItemsPath": "$.items", "MaxConcurrency": limit}
            return whole | {"ItemSelector": selector | {"items": [1]}, "ResultPath": "$.m"} | follow


def tasks_of(calls: list[Any]) -> dict[str, Any]:
    def work(given):
        calls.append(given.get("n"))
        return given.get("n", 0) + 1

    def fail(given):
        calls.append(given.get("n"))
        raise hf.asl.Error("Odd", str(given.get("n")))

    return {"work": work, "fail": fail}


@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(machines())
def test_a_random_machine_that_continues_as_new_all_the_time_is_none_that_never_does(definition):
    seldom, often = [], []
    plain, _ = run(definition, {"n": 0, "items": [1, 2, 3]}, SELDOM, **tasks_of(seldom))
    assert run(definition, {"n": 0, "items": [1, 2, 3]}, OFTEN, **tasks_of(often))[0] == plain
    assert sorted(often) == sorted(seldom)


@settings(max_examples=8, deadline=None, suppress_health_check=list(HealthCheck))
@given(machines())
def test_a_random_machine_is_the_same_on_sqlite(tmp_path_factory, definition):
    def on(home):
        app = hf.App("asl", home=home)
        machine = app.state_machine("m", at_once(definition), tasks=tasks_of([]))

        async def main():
            async with app.worker():
                handle = await machine.start({"n": 0, "items": [1, 2, 3]}, id="m-1")
                return await ended(handle), sorted(event.name for event in await handle.history())

        return asyncio.run(main())

    assert on(f"sqlite:///{tmp_path_factory.mktemp('home')}/home.db") == on("memory://")


def at_once(value: Any) -> Any:
    """The definition without anything that takes time: SQLite runs in real time."""
    if isinstance(value, dict):
        return {name: 0 if name in ("Seconds", "MaxAttempts") else at_once(each) for name, each in value.items()}
    return [at_once(each) for each in value] if isinstance(value, list) else value
