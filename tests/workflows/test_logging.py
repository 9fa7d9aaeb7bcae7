"""Logging in bodies: once, however often they are replayed."""

from __future__ import annotations

import logging

import pytest

import holdfast as hf


@pytest.fixture
def said(caplog):
    caplog.set_level(logging.INFO, logger="shop")
    return lambda: [each.getMessage() for each in caplog.records if each.name == "shop"]


async def test_what_was_logged_before_a_replay_is_not_logged_again(app, said):
    log = hf.get_logger("shop")

    @app.step
    async def step(n: int) -> int:
        log.info("step %d", n)
        return n

    @app.workflow
    async def job() -> None:
        log.info("started")
        for n in range(3):
            await step(n)
            log.info("after %d", n)
            await hf.sleep("1ms")
        log.info("ended")

    async with app.worker():
        await job()
    assert said() == ["started", "step 0", "after 0", "step 1", "after 1", "step 2", "after 2", "ended"]


async def test_looking_at_an_execution_logs_nothing(app, said, reaches):
    """Once something is recorded; before that a worker cannot know that another has logged the beginning."""
    log = hf.get_logger("shop")

    @app.step
    async def step() -> None: ...

    @app.workflow
    async def job() -> None:
        hf.query(ready)
        await step()
        log.info("waiting")
        try:
            await hf.signal("go")
        finally:
            log.info("leaving")

    def ready() -> bool:
        return True

    async with app.worker():
        handle = await job.start(id="j")
        await reaches(handle, "SUSPENDED")
        assert said() == ["waiting"]
        for _ in range(3):
            assert await handle.query("ready")
        assert said() == ["waiting"]
        await handle.signal("go")
        await handle
        assert await handle.query("ready")
    assert said() == ["waiting", "leaving"]


async def test_leaving_memory_logs_nothing(app, said, reaches):
    log = hf.get_logger("shop")

    @app.workflow
    async def job() -> None:
        try:
            await hf.signal("go")
        except BaseException:
            log.info("interrupted")
            raise
        finally:
            log.info("leaving")

    async with app.worker():
        handle = await job.start(id="j")
        await reaches(handle, "SUSPENDED")
    assert said() == []


async def test_outside_of_bodies_it_is_an_ordinary_logger(said):
    log = hf.get_logger("shop")
    assert log is logging.getLogger("shop")
    assert hf.get_logger("shop") is log
    log.info("plain")
    assert said() == ["plain"]
    assert len(log.filters) == 1
