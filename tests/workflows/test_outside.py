"""A body that waits for threads or other loops fails and says where, whatever its execution is doing meanwhile."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import Future
from typing import Any

import pytest
from tests.worlds import World

import holdfast as hf

HERE = "tests/workflows/test_outside.py"


@pytest.fixture(params=["memory", "sqlite"])
def world(request, tmp_path):
    """Homes whose processes keep executions in memory: what comes for others is not heard."""
    return World(request.param, tmp_path)


async def test_a_library_that_answers_from_a_thread_fails_the_execution(app):
    @app.workflow
    async def job() -> Any:
        loop = asyncio.get_running_loop()
        future = loop.create_future()
        threading.Thread(target=lambda: loop.call_soon_threadsafe(future.set_result, 42)).start()
        return await future

    async with app.worker():
        handle = await job.start(id="j")
        with pytest.raises(hf.ExecutionFailed, match=rf"{HERE}:\d+") as raised:
            await handle
    assert raised.value.error_type == "IOOutsideStep"


async def test_an_execution_that_was_suspended_meanwhile_is_woken(app, reaches):
    answer: Future[int] = Future()

    @app.workflow
    async def job() -> Any:
        return await asyncio.gather(asyncio.wrap_future(answer), hf.signal("go on"))

    async with app.worker():
        handle = await job.start(id="j")
        await reaches(handle, "SUSPENDED")
        answer.set_result(42)
        with pytest.raises(hf.ExecutionFailed, match="IOOutsideStep"):
            await handle


async def test_an_answer_that_is_there_already_is_an_error_too(app):
    answer: Future[int] = Future()
    answer.set_result(42)

    @app.workflow
    async def job() -> int:
        return await asyncio.wrap_future(answer)  # the line to be named

    async with app.worker():
        with pytest.raises(hf.ExecutionFailed) as raised:
            await job()
    assert f"{HERE}:{job.function.__code__.co_firstlineno + 2}" in str(raised.value)
