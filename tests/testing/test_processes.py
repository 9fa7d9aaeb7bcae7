"""Simulated processes: what a dead one leaves behind troubles nobody."""

from __future__ import annotations

import asyncio
import contextlib
import gc
from typing import cast

import pytest

import holdfast as hf
from holdfast.testing.faults import NO_FAULTS, FaultCounts
from holdfast.testing.process import FEW_TASKS, Process, ProcessDied
from holdfast.testing.virtual_time import VirtualTimeLoop, run_virtual


def new_process() -> Process:
    loop = cast("VirtualTimeLoop", asyncio.get_running_loop())
    process = Process("one", loop, NO_FAULTS, FaultCounts(), offset_ms=0, timeline=None)
    process.app = hf.App("shop")
    return process


@pytest.mark.parametrize("paused", [False, True])
def test_what_failed_as_its_process_died_has_nobody_to_tell(paused: bool, caplog: pytest.LogCaptureFixture) -> None:
    failed: list[asyncio.Task[None]] = []

    async def main() -> None:
        process = new_process()

        async def fail() -> None:
            (process.pause if paused else process.crash)()
            raise ValueError("nobody will hear")

        async def work() -> None:
            failed.append(asyncio.create_task(fail()))
            await failed[0]

        working = asyncio.create_task(process.call(work))
        await asyncio.sleep(1)
        process.crash()
        with pytest.raises(ProcessDied):
            await working
        process.bury()

    run_virtual(main)
    assert failed.pop().done()
    gc.collect()
    assert not caplog.records


@pytest.mark.parametrize("others", [1, 2 * FEW_TASKS], ids=["few tasks", "many tasks"])
def test_what_failed_in_a_gather_that_its_process_did_not_live_to_see_the_end_of(
    others: int, caplog: pytest.LogCaptureFixture
) -> None:
    """``gather`` takes the errors when all have ended, and not as they come."""
    failed: list[asyncio.Task[None]] = []

    async def main() -> None:
        process = new_process()
        process.enter = contextlib.nullcontext

        async def fail() -> None:
            raise ValueError("nobody will hear")

        async def work() -> None:
            failed.append(asyncio.create_task(fail()))
            await asyncio.gather(*failed, go_on(), return_exceptions=True)

        async def go_on() -> None:
            await asyncio.wait(failed)
            await asyncio.gather(*map(asyncio.sleep, [0] * others))
            await asyncio.sleep(2)

        await process.start()
        working = asyncio.create_task(process.call(work))
        await asyncio.sleep(1)
        process.crash()
        with pytest.raises(ProcessDied):
            await working
        process.bury()

    run_virtual(main)
    assert failed.pop().done()
    gc.collect()
    assert not caplog.records


def test_an_error_that_nobody_has_seen_is_told_if_its_process_has_ended_in_peace(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def main() -> None:
        process = new_process()
        process.enter = contextlib.nullcontext

        async def fail() -> None:
            raise ValueError("this is to be seen")

        async def work() -> None:
            asyncio.create_task(fail())  # noqa: RUF006 - nobody keeps it: that is what it is about

        await process.start()
        await process.call(work)
        await process.stop()
        process.bury()

    run_virtual(main)
    gc.collect()
    (told,) = caplog.records
    assert "never retrieved" in told.message


def test_what_failed_as_the_world_ended_has_nobody_to_tell(caplog: pytest.LogCaptureFixture) -> None:
    failed: list[asyncio.Task[None]] = []

    async def main() -> None:
        process = new_process()
        loop = asyncio.get_running_loop()
        ends: asyncio.Future[None] = loop.create_future()

        async def fail() -> None:
            ends.set_result(None)
            raise ValueError("nobody will hear")

        async def work() -> None:
            failed.append(asyncio.create_task(fail()))
            await failed[0]

        working = loop.create_task(work(), context=process.context.copy())
        await ends
        assert not working.done()
        process.bury()

    run_virtual(main)
    assert failed.pop().done()
    gc.collect()
    assert not caplog.records
