"""The definition of a machine belongs to the execution that began with it, whatever code declares meanwhile."""

from __future__ import annotations

import asyncio
from typing import Any
from unittest import mock

import pytest
from tests.asl.machines import passing, states

import holdfast as hf
from holdfast.asl.workflow import MachineWorkflow
from holdfast.backends.memory import MemoryData, open_memory_home
from holdfast.ports import Home
from holdfast.testing import PATIENT, VirtualClock, run_virtual

SYNC = "arn:aws:states:::states:startExecution.sync:2"
INNER = "arn:aws:states:us-east-1:000000000000:stateMachine:inner"


class Releases:
    """Releases of one app on one home, one after the other, in virtual time."""

    def __init__(self) -> None:
        self.data = MemoryData()
        self.clock = VirtualClock()

    async def _open(self) -> Home:
        return open_memory_home(data=self.data)

    def app(self) -> hf.App:
        return hf.App("asl", home=self._open, clock=self.clock, limits=PATIENT)


def an_hour(result: str, **more: Any) -> dict[str, Any]:
    """A machine that waits for an hour, and then answers this."""
    return states("Wait", Wait={"Type": "Wait", "Seconds": 3600, "Next": "Done"}, Done=passing(Result=result)) | more


def declare(app: hf.App, result: str) -> dict[str, Any]:
    """A machine, and what starts it in each way: from Python, and from a machine."""
    inner = app.state_machine("inner", an_hour(result))

    @app.workflow(version="1")
    async def awaits() -> object:
        return await inner({"n": 1})

    @app.workflow(version="1")
    async def starts() -> object:
        handle = await inner.start({"n": 1}, id="inner-1")
        await hf.sleep("30m")
        return await handle

    call = {"Type": "Task", "Resource": SYNC, "Arguments": {"StateMachineArn": INNER, "Input": {"n": 1}}}
    call |= {"QueryLanguage": "JSONata", "Output": "{% $states.result.Output %}", "End": True}
    return {
        "inner": inner,
        "awaits": awaits,
        "starts": starts,
        "outer": app.state_machine("outer", states("C", C=call)),
    }


HOW = ["awaits", "starts", "outer"]


@pytest.mark.parametrize("how", HOW)
def test_a_parent_goes_on_when_the_machine_that_it_has_started_is_declared_anew(how):
    async def main():
        releases = Releases()
        first, second = releases.app(), releases.app()
        old, new = declare(first, "old"), declare(second, "new")
        async with first.worker():
            await old[how].start(id="p-1")
            await asyncio.sleep(60)
        async with second.worker(), asyncio.timeout(86_400):
            return await new[how].handle("p-1"), await new["inner"]({"n": 1})

    assert run_virtual(main) == ("old", "new")


def by_all_of_it(_workflow: MachineWorkflow, input: bytes) -> bytes:
    """By what earlier releases told calls of machines apart: the input together with the definition."""
    return input


@pytest.mark.parametrize("how", ["awaits", "starts"])
@pytest.mark.parametrize(("result", "status"), [("old", "COMPLETED"), ("new", "BLOCKED")])
def test_a_parent_of_an_earlier_release_goes_on_as_long_as_the_machine_is_the_same(how, result, status):
    async def main():
        releases = Releases()
        first, second = releases.app(), releases.app()
        old, new = declare(first, "old"), declare(second, result)
        with mock.patch.object(MachineWorkflow, "given", by_all_of_it):
            async with first.worker():
                await old[how].start(id="p-1")
                await asyncio.sleep(60)
        async with second.worker():
            await asyncio.sleep(2 * 3600)
            return (await new[how].handle("p-1").status()).status

    assert run_virtual(main) == status


def test_a_parent_that_calls_the_machine_with_another_input_is_blocked(caplog):
    """What the machine is given is compared still (G13)."""

    def declared(app: hf.App, n: int) -> Any:
        inner = app.state_machine("inner", an_hour("done"))

        @app.workflow(version="1")
        async def awaits() -> object:
            return await inner({"n": n})

        return awaits

    async def main():
        releases = Releases()
        first, second = releases.app(), releases.app()
        old, new = declared(first, 1), declared(second, 2)
        async with first.worker():
            await old.start(id="p-1")
            await asyncio.sleep(60)
        async with second.worker():
            await asyncio.sleep(2 * 3600)
            return (await new.handle("p-1").status()).status

    assert run_virtual(main) == "BLOCKED"
    assert "is called with other arguments now" in caplog.text
