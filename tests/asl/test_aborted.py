"""What a history tells of branches and iterations that another one's failure has ended."""

from __future__ import annotations

import asyncio
from typing import Any

from tests.asl.machines import app_in_virtual_time, ended, passing, states, task

import holdfast as hf
from holdfast.asl.reading import events_of
from holdfast.testing import run_virtual

PAUSE = {"Type": "Wait", "Seconds": 60, "End": True}


def boom(_given: Any) -> None:
    raise hf.asl.Error("Down", "")


def types_of(definition: dict[str, Any], input: Any = None, **tasks: Any) -> list[str]:
    app = app_in_virtual_time()
    machine = app.state_machine("m", definition, tasks=tasks)

    async def main() -> list[str]:
        async with app.worker():
            await ended(await machine.start(input, id="e"))
            _, events = await events_of(app.runtime(), "wf#m#e")
        return [each.type for each in events]

    return run_virtual(main)


def parallel(*branches: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"Type": "Parallel", "Branches": list(branches), "End": True} | more


def test_states_of_the_other_branches_are_aborted_and_then_the_one_that_failed():
    inner = parallel(states("Sleep", Sleep=PAUSE))
    both = parallel(
        states("Boom", Boom=task("boom")),
        states("Pause", Pause=PAUSE),
        states("Inner", Inner=inner),
        states("Quick", Quick=passing()),
    )
    types = types_of(states("Both", Both=both), boom=boom)
    failed = types.index("LambdaFunctionFailed")
    assert types[failed + 1 :] == [
        "WaitStateAborted",
        "WaitStateAborted",
        "ParallelStateAborted",
        "TaskStateAborted",
        "ParallelStateFailed",
        "ExecutionFailed",
    ]


def test_iterations_are_aborted_with_their_states():
    definition = states("Choose", Choose={"Type": "Choice", "Choices": [], "Default": "Pause"}, Pause=PAUSE)
    definition["States"]["Choose"]["Choices"] = [{"Variable": "$", "NumericEquals": 1, "Next": "Boom"}]
    definition["States"]["Boom"] = task("boom")
    each = {"Type": "Map", "ItemProcessor": definition, "End": True}
    types = types_of(states("Each", Each=each), [0, 1], boom=boom)
    assert types[types.index("LambdaFunctionFailed") + 1 :] == [
        "MapIterationFailed",
        "WaitStateAborted",
        "MapIterationAborted",
        "TaskStateAborted",
        "MapStateFailed",
        "ExecutionFailed",
    ]


def test_a_map_in_a_branch_is_aborted_behind_its_iterations():
    each = {"Type": "Map", "ItemProcessor": states("Pause", Pause=PAUSE), "ItemsPath": "$.of", "End": True}
    both = parallel(states("Boom", Boom=task("boom")), states("Each", Each=each))
    types = types_of(states("Both", Both=both), {"of": [1]}, boom=boom)
    assert types[types.index("LambdaFunctionFailed") + 1 :][:4] == [
        "WaitStateAborted",
        "MapIterationAborted",
        "MapStateAborted",
        "TaskStateAborted",
    ]


def test_what_has_ended_well_or_is_no_branch_is_not_aborted():
    assert not [each for each in types_of(states("Boom", Boom=task("boom")), boom=boom) if "Aborted" in each]
    quick = parallel(states("Quick", Quick=passing()), states("Quick too", **{"Quick too": PAUSE}))
    assert not [each for each in types_of(states("Both", Both=quick)) if "Aborted" in each]


def test_a_history_that_is_read_while_branches_run_says_nothing_of_their_leaving_memory():
    app = app_in_virtual_time()
    machine = app.state_machine("m", states("Both", Both=parallel(states("Pause", Pause=PAUSE))))

    async def main() -> list[str]:
        async with app.worker():
            handle = await machine.start({}, id="e")
            await asyncio.sleep(1)
            _, events = await events_of(app.runtime(), "wf#m#e")
            await handle.terminate()
        return [each.type for each in events]

    assert run_virtual(main)[-1] == "WaitStateEntered"
