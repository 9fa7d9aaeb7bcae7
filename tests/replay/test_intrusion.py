"""What comes to a body from a thread or another loop is an error where the body waits for it, and never a silence."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from concurrent.futures import Future
from typing import Any

import pytest
from tests.replay.test_activation import Bench

from holdfast.errors import IOOutsideStep
from holdfast.replay.requests import RUNNING, Raised, Returned

HERE = "tests/replay/test_intrusion.py"


def in_a_thread(work) -> list[BaseException]:
    """Do it there, and answer what it raised."""
    raised: list[BaseException] = []

    def run() -> None:
        try:
            work()
        except BaseException as error:
            raised.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    return raised


def line_of(function, offset: int) -> str:
    return f"{HERE}:{function.__code__.co_firstlineno + offset}"


def error_of(run: Bench) -> IOOutsideStep:
    run.activation.interrupt()
    assert isinstance(run.outcome, Raised), run.outcome
    assert isinstance(run.outcome.error, IOOutsideStep)
    return run.outcome.error


def test_an_answer_from_a_thread_is_an_error_where_it_is_awaited(bench):
    futures: list[asyncio.Future[Any]] = []

    async def body(_: Bench) -> Any:
        futures.append(asyncio.get_running_loop().create_future())
        return await futures[0]  # the line to be named

    run = bench(body)
    loop = run.activation.loop
    assert in_a_thread(lambda: loop.call_soon_threadsafe(futures[0].set_result, 42)) == []
    assert run.outcome is RUNNING, "the thread does not run the body"
    assert run.activation.stuck() is None
    told = str(error_of(run))
    assert line_of(body, 2) in told
    assert "loop.call_soon_threadsafe" in told
    assert "@app.step" in told


def test_the_host_is_woken_in_its_own_thread():
    threads = []

    async def host() -> None:
        woken = asyncio.Event()
        futures: list[asyncio.Future[Any]] = []

        async def body(_: Bench) -> None:
            futures.append(asyncio.get_running_loop().create_future())
            await futures[0]

        class Host:
            def wake(self) -> None:
                threads.append(threading.current_thread())
                woken.set()

        run = Bench(body)
        run.activation.waker = Host()
        await asyncio.to_thread(run.activation.loop.call_soon_threadsafe, futures[0].set_result, 42)
        await woken.wait()
        error_of(run)
        run.close()

    asyncio.run(host())
    assert threads == [threading.current_thread()]


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_future_of_another_library_is_an_error_however_soon_it_is_done(bench, when, caplog):
    future: Future[int] = Future()

    async def body(_: Bench) -> int:
        return await asyncio.wrap_future(future)

    if when == "before":
        future.set_result(42)
    run = bench(body)
    if when == "after":
        in_a_thread(lambda: future.set_result(42))
    assert line_of(body, 1) in str(error_of(run))


def test_a_future_that_the_hosts_loop_sets_is_an_error(bench):
    futures: list[asyncio.Future[Any]] = []

    async def body(_: Bench) -> Any:
        futures.append(asyncio.get_running_loop().create_future())
        return await futures[0]

    run = bench(body)
    futures[0].set_result("from outside")
    assert line_of(body, 2) in str(error_of(run))


@pytest.mark.parametrize("how", ["await", "wait", "wait_for", "gather", "shield"])
async def test_a_future_of_the_hosts_loop_is_an_error_however_it_is_awaited(bench, how):
    future = asyncio.get_running_loop().create_future()

    async def body(_: Bench) -> Any:
        match how:
            case "await":
                await future
            case "wait":
                await asyncio.wait([future])
            case "wait_for":
                await asyncio.wait_for(future, None)
            case "gather":
                await asyncio.gather(future)
            case "shield":
                await asyncio.shield(future)

    run = bench(body)
    future.set_result(42)
    await asyncio.sleep(0)
    told = str(error_of(run))
    assert f"{HERE}:" in told


async def test_a_lock_of_the_hosts_loop_is_an_error(bench):
    lock = asyncio.Lock()
    await lock.acquire()
    waiter = asyncio.create_task(lock.acquire())
    await asyncio.sleep(0)

    async def body(_: Bench) -> None:
        await lock.acquire()

    assert "bound to a different event loop" in str(error_of(bench(body)))
    waiter.cancel()
    await asyncio.wait([waiter])


async def test_an_event_that_somebody_else_sets_is_an_error(bench):
    event = asyncio.Event()

    async def body(_: Bench) -> None:
        await event.wait()

    run = bench(body)
    event.set()
    error_of(run)


def test_a_callback_about_no_future_is_an_error_for_its_caller_and_for_the_body(bench):
    async def body(run: Bench) -> None:
        await asyncio.gather(run.ask("a"), asyncio.Event().wait())  # the line to be named

    run = bench(body)
    (raised,) = in_a_thread(lambda: run.activation.loop.call_soon_threadsafe(print))
    assert isinstance(raised, IOOutsideStep)
    assert line_of(body, 1) in str(error_of(run))


def test_an_operation_that_is_interrupted_is_withdrawn(bench):
    async def body(run: Bench) -> str:
        try:
            await run.ask("a")
        except IOOutsideStep:
            return await run.ask("b")
        return "not told"

    run = bench(body)
    in_a_thread(lambda: run.activation.loop.call_soon_threadsafe(print))
    run.activation.interrupt()
    run.look()
    assert run.withdrawn == ["a#0"]
    run.answer("b#0", "told")
    assert run.outcome == Returned("told")


def test_a_body_that_swallows_the_error_and_waits_again_is_stuck_and_says_so(bench):
    futures: list[asyncio.Future[Any]] = []

    async def body(_: Bench) -> None:
        while True:
            futures.append(asyncio.get_running_loop().create_future())
            with contextlib.suppress(Exception):
                await futures[-1]

    run = bench(body)
    in_a_thread(lambda: run.activation.loop.call_soon_threadsafe(futures[0].set_result, 42))
    run.activation.interrupt()
    assert len(futures) == 2
    assert line_of(body, 4) in run.activation.stuck()


def test_what_comes_when_the_body_has_left_memory_is_ignored(bench):
    futures: list[asyncio.Future[Any]] = []

    async def body(_: Bench) -> None:
        futures.append(asyncio.get_running_loop().create_future())
        await futures[0]

    run = bench(body)
    loop = run.activation.loop
    run.close()
    assert in_a_thread(lambda: loop.call_soon_threadsafe(futures[0].set_result, 42)) == []
    assert in_a_thread(lambda: loop.call_soon_threadsafe(print)) == []
    run.activation.interrupt()
    assert run.outcome is RUNNING


def test_what_comes_after_the_end_changes_nothing(bench):
    async def body(_: Bench) -> str:
        return "done"

    run = bench(body)
    in_a_thread(lambda: run.activation.loop.call_soon_threadsafe(print))
    run.activation.interrupt()
    assert run.outcome == Returned("done")


def test_a_body_that_calls_it_itself_is_told_at_once(bench):
    async def body(_: Bench) -> str:
        try:
            asyncio.get_running_loop().call_soon_threadsafe(print)
        except IOOutsideStep as error:
            return str(error)
        return "not told"

    assert "loop.call_soon_threadsafe" in bench(body).outcome.value


def test_a_coroutine_sent_to_a_body_is_refused(bench):
    async def body(run: Bench) -> None:
        await run.ask("a")

    async def other() -> None:
        """Never begun."""

    coroutine = other()
    run = bench(body)
    (raised,) = in_a_thread(lambda: asyncio.run_coroutine_threadsafe(coroutine, run.activation.loop))
    coroutine.close()
    assert isinstance(raised, IOOutsideStep)
    error_of(run)
