"""Asking a loop in another thread, and waiting there."""

from __future__ import annotations

import asyncio
import signal
import threading
from collections.abc import Iterator
from concurrent.futures import CancelledError
from contextvars import ContextVar

import pytest

from holdfast.patterns.bridge import ask, foreign_loop

NAME: ContextVar[str] = ContextVar("name", default="nobody")


@pytest.fixture
def loop() -> Iterator[asyncio.AbstractEventLoop]:
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    yield loop
    loop.call_soon_threadsafe(loop.stop)
    thread.join()
    loop.close()


def test_an_answer_an_error_and_the_callers_context_come_through(loop: asyncio.AbstractEventLoop) -> None:
    async def answer() -> tuple[str, int]:
        await asyncio.sleep(0)
        return NAME.get(), threading.get_ident()

    async def fail() -> None:
        raise ValueError("no")

    token = NAME.set("ada")
    name, thread = ask(loop, answer())
    NAME.reset(token)
    assert name == "ada"
    assert thread != threading.get_ident()
    with pytest.raises(ValueError, match="no"):
        ask(loop, fail())


def test_many_threads_ask_one_loop_each_their_own_question(loop: asyncio.AbstractEventLoop) -> None:
    answers: dict[int, int] = {}

    async def same(number: int) -> int:
        await asyncio.sleep(0)
        return number

    def asks(first: int) -> None:
        for number in range(first, first + 50):
            answers[number] = ask(loop, same(number))

    threads = [threading.Thread(target=asks, args=(50 * each,)) for each in range(8)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert answers == {number: number for number in range(400)}


def test_work_that_is_cancelled_on_its_loop_is_an_ordinary_error_here(loop: asyncio.AbstractEventLoop) -> None:
    async def give_up() -> None:
        task = asyncio.current_task()
        assert task is not None
        task.cancel()
        await asyncio.sleep(0)

    with pytest.raises(CancelledError):
        ask(loop, give_up())
    assert issubclass(CancelledError, Exception)


def test_ctrl_c_ends_the_wait_and_the_work(loop: asyncio.AbstractEventLoop) -> None:
    ended = threading.Event()

    async def work() -> None:
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            ended.set()

    with pytest.raises(KeyboardInterrupt):
        ask(loop, work())
    assert ended.wait(30)


def test_a_loop_that_is_closed_is_an_error_and_no_wait() -> None:
    loop = asyncio.new_event_loop()
    loop.close()

    async def work() -> None: ...

    with pytest.raises(RuntimeError, match="closed"):
        ask(loop, work())  # and no warning of a coroutine that was never awaited


async def test_a_thread_with_a_loop_must_not_block_it() -> None:
    with pytest.raises(Exception, match="would block the event loop"):
        foreign_loop(asyncio.get_running_loop(), "charge")
