"""The definition of a machine belongs to the execution that began with it, whatever code declares meanwhile."""

from __future__ import annotations

import asyncio
from typing import Any
from unittest import mock

import pytest
from tests.asl.machines import ended, passing, states, task

import holdfast as hf
from holdfast.asl.drawing import picture_of
from holdfast.asl.workflow import MachineWorkflow
from holdfast.backends.memory import MemoryData, open_memory_home
from holdfast.ports import Home
from holdfast.testing import PATIENT, VirtualClock, record_history, replay_history, run_virtual
from holdfast.workflows.record import decode_record, partition_of

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


# ── Large definitions ───────────────────────────────────────────────────────────────────────────────────────────────

LARGE = {"Comment": "large " * 500}


def heads_of(data: MemoryData, kind: str) -> list[bytes]:
    """The bodies of the heads of a kind."""
    return [head.body for head in data.heads() if head.partition.startswith(kind)]


EACH_ITEM = states("Wait", Wait={"Type": "Wait", "Seconds": 3600, "End": True}) | LARGE
FOR_EACH = {"Type": "Map", "ItemProcessor": EACH_ITEM | {"ProcessorConfig": {"Mode": "DISTRIBUTED"}}, "End": True}


def test_executions_share_the_text_of_a_large_definition():
    async def main():
        releases = Releases()
        app = releases.app()
        machine = app.state_machine("m", an_hour("done", **LARGE))
        async with app.worker():
            handles = [await machine.start({"n": n}, id=f"m-{n}") for n in range(20)]
            await asyncio.sleep(60)
            executions, texts = heads_of(releases.data, "wf#"), heads_of(releases.data, "doc#")
            assert [await each for each in handles] == ["done"] * 20
        return executions, texts

    executions, texts = run_virtual(main)
    assert len(executions) == 20
    assert all(len(each) < 1_000 for each in executions)
    assert len(texts) == 1
    assert b"large large" in texts[0]
    record = decode_record(executions[0])
    assert f'"shared":"{record.needs}"'.encode() in executions[0], "as earlier releases have stored it"


def test_items_of_a_distributed_map_share_their_definition_and_go_on_with_it():
    async def main():
        releases = Releases()
        first, second = releases.app(), releases.app()
        old = first.state_machine("m", states("All", All=FOR_EACH))
        new = second.state_machine("m", states("Other", Other=passing(Result="new")))
        async with first.worker():
            await old.start([1, 2, 3], id="m-1")
            await asyncio.sleep(60)
        children = heads_of(releases.data, "wf#m.items#")
        async with second.worker(), asyncio.timeout(86_400):
            return children, await new.handle("m-1")

    children, answer = run_virtual(main)
    assert answer == [1, 2, 3]
    assert len(children) == 3
    assert not any(b"large large" in each for each in children)


@pytest.mark.parametrize("more", [{}, LARGE])
def test_a_redrive_goes_on_with_the_definition_that_failed(more):
    refusals = [1]

    def work(_given: object) -> str:
        if refusals:
            raise hf.asl.Error("Refused", str(refusals.pop()))
        return "worked"

    async def main():
        releases = Releases()
        first, second = releases.app(), releases.app()
        old = first.state_machine("m", states("Work", Work=task("work")) | more, tasks={"work": work})
        new = second.state_machine("m", states("New", New=passing(Result="new")), tasks={"work": work})
        async with first.worker():
            assert await ended(await old.start(id="m-1")) == ("Refused", "1")
        async with second.worker(), asyncio.timeout(86_400):
            await new.handle("m-1").retry()
            return await new.handle("m-1")

    assert run_virtual(main) == "worked"


def test_what_reads_an_execution_reads_its_definition():
    async def main():
        releases = Releases()
        first, second = releases.app(), releases.app()
        old = first.state_machine("m", an_hour("old", **LARGE))
        second.state_machine("m", states("New", New=passing(Result="new")))
        async with first.worker():
            assert await (await old.start(id="m-1")) == "old"
        async with second:
            recorded = await record_history(second, second.registry.machines["m"].handle("m-1"))
            picture = await picture_of(second.runtime(), partition_of("m", "m-1"))
            replay_history(second, recorded)
            return picture

    assert "Wait" in run_virtual(main)


def test_an_execution_whose_definition_is_missing_is_blocked_until_it_is_there(caplog):
    async def main():
        releases = Releases()
        first, second = releases.app(), releases.app()
        machines = [app.state_machine("m", an_hour("done", **LARGE)) for app in (first, second)]
        async with first.worker():
            await machines[0].start(id="m-1")
            await asyncio.sleep(60)
        (lost,) = [head for head in releases.data.heads() if head.partition.startswith("doc#")]
        releases.data.remove(lost.partition, lost.sort)
        handle = machines[1].handle("m-1")
        async with second.worker(), asyncio.timeout(86_400):
            await asyncio.sleep(2 * 3600)
            status = (await handle.status()).status
            releases.data.set(lost)
            await handle.signal("look again")
            return status, await handle

    assert run_virtual(main) == ("BLOCKED", "done")
    assert "Restore it from a backup" in caplog.text
