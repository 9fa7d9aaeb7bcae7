"""Who waits while nobody can be at work is told so."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path

import pytest
from msgspec.structs import replace

import holdfast as hf
from holdfast.actors.calling import dispatch
from holdfast.backends.memory import MemoryData, open_memory_home
from holdfast.kernel.presence import Presence
from holdfast.workflows import wait_for_end

NOBODY = r"nobody works on it: this process runs no worker.*Start one: `holdfast run"


@pytest.fixture(autouse=True)
def soon(monkeypatch):
    monkeypatch.setattr(wait_for_end, "LOOK_AGAIN_SECONDS", 0.01)
    monkeypatch.setattr(dispatch, "REPORT_SECONDS", 0.0)
    monkeypatch.setattr(dispatch, "FIRST_LOOK_SECONDS", 0.01)


@pytest.fixture
def home(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/shop.db"


def shop(home: str) -> tuple[hf.App, hf.Workflow, type]:
    app = hf.App("shop", home=home)

    @app.workflow
    async def job() -> str:
        return await hf.signal("go", str)

    class Till(hf.Actor, app=app):
        async def pay(self) -> int:
            return 7

    return app, job, Till


def warnings(caplog) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]


async def test_who_waits_for_a_result_is_told_once_and_when_he_gives_up(home, caplog) -> None:
    app, job, _ = shop(home)
    async with app:
        handle = await job.start(id="j")
        with pytest.raises(hf.WaitTimeout, match=NOBODY):
            await handle.result(timeout="200ms")
    (told,) = warnings(caplog)
    assert told.startswith("execution 'j' of workflow 'job' is waited for, and nobody works on it")


async def test_who_calls_an_actor_is_told_too(home, caplog) -> None:
    app, _, till = shop(home)
    async with app:
        with pytest.raises(hf.WaitTimeout, match=NOBODY):
            await till.at("t", timeout="200ms").pay()
    (told,) = warnings(caplog)
    assert "'t'" in told


async def test_with_a_worker_here_or_elsewhere_nothing_is_said(home, caplog) -> None:
    (app, job, till), (other, _, _) = shop(home), shop(home)
    async with app, other.worker():
        handle = await job.start(id="j")
        with pytest.raises(hf.WaitTimeout, match="it goes on"):
            await handle.result(timeout="200ms")
        assert await till.at("t").pay() == 7
    async with app.worker():
        with pytest.raises(hf.WaitTimeout, match="it goes on"):
            await handle.result(timeout="200ms")
    assert warnings(caplog) == []


async def test_a_worker_without_the_code_is_none(home, caplog) -> None:
    app, job, _ = shop(home)
    async with app:
        handle = await job.start(id="j")
    bare = hf.App("other", home=home)
    async with bare.worker():
        host, opened = bare.runtime().host, bare.runtime().home
        assert "has no code for it" in Presence(opened).missing(handle._partition, host)
        await asyncio.sleep(0)


def test_where_processes_are_not_heard_of_nothing_is_known() -> None:
    home = open_memory_home(data=MemoryData())
    assert Presence(home).missing("wf#job#j", None)
    assert not Presence(replace(home, hears_peers=False)).missing("wf#job#j", None)
