"""Short ways to write machines in tests, and to run them in virtual time."""

from __future__ import annotations

from typing import Any

import holdfast as hf
from holdfast.testing import PATIENT, VirtualClock, run_virtual

LAMBDA = "arn:aws:lambda:eu-west-1:123456789012:function:"


def app_in_virtual_time(home: str = "memory://") -> hf.App:
    return hf.App("asl", home=home, clock=VirtualClock(), limits=PATIENT)


def states(start: str, /, **named: dict[str, Any]) -> dict[str, Any]:
    """A machine of these states."""
    return {"StartAt": start, "States": named}


def task(name: str, **more: Any) -> dict[str, Any]:
    """A Task that calls a function of this name, and ends unless it says where the machine goes on."""
    return {"Type": "Task", "Resource": LAMBDA + name} | ({} if "Next" in more else {"End": True}) | more


def passing(**more: Any) -> dict[str, Any]:
    """A Pass, which ends unless it says where the machine goes on."""
    return {"Type": "Pass"} | ({} if "Next" in more else {"End": True}) | more


async def ended(handle: hf.Handle[Any]) -> Any:
    """What an execution answers, or the error and the cause it fails with."""
    try:
        return await handle
    except hf.ExecutionFailed as failed:
        error = failed.__cause__
        if not isinstance(error, hf.asl.Error):
            raise
        return error.error, error.cause


def outcome(definition: dict[str, Any], input: Any = None, /, **tasks: Any) -> Any:
    """What one execution of a machine comes to."""
    return history(definition, input, **tasks)[0]


def history(definition: dict[str, Any], input: Any = None, /, **tasks: Any) -> tuple[Any, list[str]]:
    """What one execution of a machine comes to, and the names of its operations."""
    app = app_in_virtual_time()
    machine = app.state_machine("machine", definition, tasks=tasks)

    async def main() -> tuple[Any, list[str]]:
        async with app.worker():
            handle = await machine.start(input, id="m-1")
            return await ended(handle), [event.name for event in await handle.history()]

    return run_virtual(main)
