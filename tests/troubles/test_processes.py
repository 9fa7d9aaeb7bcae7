"""Workers and leases in trouble."""

from __future__ import annotations

import asyncio
import signal

import pytest
from tests.troubles.stage import HOUR_MS, Stage, trouble

from holdfast.backends.sqlite import connection


async def start_holding(stage: Stage) -> None:
    planted = stage.code()
    async with planted.app:
        await planted.holding.start(id="holding-1")


async def start_stopping(stage: Stage) -> None:
    planted = stage.code()
    async with planted.app:
        await planted.stopping.start(id="stopping-1")


@pytest.fixture
def holding(stage):
    """A home whose one worker is in a step."""
    asyncio.run(start_holding(stage))
    stage.worker()
    stage.status("holding", "holding-1", "RUNNING")
    stage.until("workers", lambda told: any(each["executions"] for each in told["workers"]))
    return stage


@trouble("a dead worker", "doctor", pages=("Workers",))
def test_a_dead_worker(holding):
    holding.workers[0].kill()
    told = holding.look("doctor")
    assert "1 processes died at work; no worker takes it over: start one with holdfast run MODULE:APP" in told
    assert f"process {holding.workers[0].pid} died: it worked on holding holding-1" in told
    page = holding.click("Workers")
    assert f"{holding.workers[0].pid}-" in page
    assert "holding holding-1" in page


@trouble("a stopped worker", "doctor", pages=("Workers",))
def test_a_stopped_worker(holding):
    worker = holding.workers[0]
    worker.signal(signal.SIGSTOP)
    told = holding.until_told("doctor", "kill -CONT")
    assert f"kill -CONT {worker.pid} continues process {worker.pid}, which a signal or a debugger has stopped" in told
    if "fail  file" not in told:  # unless it was stopped while it had the file locked
        assert "it has holding holding-1" in told
        assert "stopped by a signal or a debugger: kill -CONT continues it" in holding.click("Workers")


def test_a_worker_that_is_stopped_while_it_has_the_file_locked(stage, monkeypatch):
    monkeypatch.setattr(connection, "OPEN_WAIT_MS", 100)
    worker = stage.worker()
    asyncio.run(start_stopping(stage))
    told = stage.until_told("doctor", "fail  file")
    assert "stayed locked by another process" in told
    assert f"kill -CONT {worker.pid} continues process {worker.pid}" in told


@trouble("a lease that is never released", "doctor", "leases", pages=("Leases",))
def test_a_lease_that_is_never_released(stage):
    planted = stage.code(PLANTED_BEHIND_MS=str(2 * HOUR_MS))

    async def look() -> tuple[str, str, str]:
        async with planted.app, planted.app.lease("nightly-report", ttl="1d"):
            doctor = await asyncio.to_thread(stage.look, "doctor")
            leases = await asyncio.to_thread(stage.look, "doctor", "leases")
            return doctor, leases, await asyncio.to_thread(stage.click, "Leases")

    told, leases, page = asyncio.run(look())
    assert "lease nightly-report: process " in told
    assert "has held it for 2 h 00 m" in told
    assert "they are free when it leaves the block or its process ends" in told
    assert "nightly-report" in leases
    assert "HELD" in leases
    assert "nightly-report" in page
    assert "2 h ago" in page
