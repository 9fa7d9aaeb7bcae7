"""The private event loop: deterministic, complete for tasks and futures, closed to the world."""

from __future__ import annotations

import asyncio
import contextvars
import gc
import sys
import weakref
from typing import Any

import pytest

from holdfast.errors import DeterminismError, IOOutsideStep, Runaway
from holdfast.replay.loop import FREE_CALLBACKS, MOST_CALLBACKS, DurableLoop
from holdfast.replay.requests import DueTimer
from holdfast.replay.tasks import DurableTask, Handle, Timer

HERE = "tests/replay/test_loop.py"


class Clockwork:
    """Stands for the activation: keeps the timers, and fires them when told to."""

    def __init__(self) -> None:
        self.loop = DurableLoop(1000.0, self)  # type: ignore[abstract]
        self.timers: list[tuple[float, Handle]] = []
        self.cancelled: list[float] = []
        self.woken = 0

    def wake(self) -> None:
        self.woken += 1

    def start_timer(self, when: float, handle: Handle) -> Timer:
        self.timers.append((when, handle))
        return DueTimer(when, handle, self.loop, "timer")

    def _withdraw(self, timer: Timer) -> None:
        self.cancelled.append(timer.when())

    def run(self, coroutine: Any) -> asyncio.Task[Any]:
        tasks: list[asyncio.Task[Any]] = []
        self.loop.call(lambda: tasks.append(self.loop.create_task(coroutine)))
        self.loop.call(self.loop.run_ready)
        return tasks[0]

    def fire(self) -> None:
        """Let the earliest timer fire."""
        self.timers.sort(key=lambda timer: timer[0])
        when, handle = self.timers.pop(0)
        self.loop.now = when
        self.loop.schedule(handle)
        self.loop.call(self.loop.run_ready)


@pytest.fixture
def clockwork():
    made = Clockwork()
    yield made
    made.loop.evict()


def test_it_runs_what_is_ready_in_the_order_in_which_it_became_so(clockwork):
    seen = []

    async def say(what: str) -> None:
        seen.append(what)
        await asyncio.sleep(0)
        seen.append(what.upper())

    async def main() -> None:
        await asyncio.gather(*[say(each) for each in "abc"])

    assert clockwork.run(main()).done()
    assert seen == ["a", "b", "c", "A", "B", "C"]


def test_it_is_the_running_loop_only_while_it_runs(clockwork):
    async def main() -> bool:
        return asyncio.get_running_loop() is clockwork.loop and asyncio.current_task() is not None

    assert clockwork.run(main()).result() is True
    with pytest.raises(RuntimeError):
        asyncio.get_running_loop()


async def test_it_runs_within_another_loop(clockwork):
    outer_task, outer_loop = asyncio.current_task(), asyncio.get_running_loop()

    async def main() -> tuple[bool, bool]:
        return asyncio.get_running_loop() is outer_loop, asyncio.current_task() is outer_task

    assert clockwork.run(main()).result() == (False, False)
    assert asyncio.get_running_loop() is outer_loop
    assert asyncio.current_task() is outer_task


async def test_an_error_out_of_a_callback_is_told_and_leaves_the_other_loop_as_it_was(clockwork, caplog):
    loop = asyncio.get_running_loop()
    clockwork.loop.call(clockwork.loop.call_soon, lambda: 1 // 0)
    clockwork.loop.call(clockwork.loop.run_ready)
    assert asyncio.get_running_loop() is loop
    assert "ZeroDivisionError" in caplog.text


def test_the_end_of_the_process_is_no_business_of_a_body(clockwork):
    async def main() -> None:
        sys.exit(3)

    task = clockwork.run(main())
    assert isinstance(task.exception(), SystemExit)


class Ended(BaseException):
    """An error that `except Exception` does not catch."""


@pytest.mark.parametrize("error", [Ended(), SystemExit(3), GeneratorExit(), asyncio.CancelledError(), ValueError()])
def test_whatever_a_callback_raises_the_callbacks_behind_it_run(clockwork, error):
    seen = []

    def fail() -> None:
        raise error

    async def main() -> str:
        loop = asyncio.get_running_loop()
        loop.call_soon(fail)
        loop.call_soon(seen.append, 1)
        await asyncio.sleep(0)
        return "done"

    assert clockwork.run(main()).result() == "done"
    assert seen == [1]


def test_an_error_of_the_users_own_kind_is_the_tasks_alone(clockwork):
    async def fail() -> None:
        raise Ended

    async def main() -> str:
        failed = asyncio.create_task(fail())
        await asyncio.wait([failed])
        return type(failed.exception()).__name__

    assert clockwork.run(main()).result() == "Ended"


def test_a_person_may_end_the_process(clockwork):
    async def main() -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        clockwork.run(main())


# ── Bodies that never wait ──────────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def a_tenth(monkeypatch):
    """The bounds of a body, divided by ten, since to reach them takes seconds."""
    monkeypatch.setattr("holdfast.replay.loop.FREE_CALLBACKS", FREE_CALLBACKS // 10)
    monkeypatch.setattr("holdfast.replay.loop.MOST_CALLBACKS", MOST_CALLBACKS // 10)


def test_a_body_that_asks_again_and_again_is_stopped_at_the_line_where_it_does(clockwork, a_tenth):
    async def main() -> None:
        other = asyncio.create_task(asyncio.Event().wait())
        while not other.done():
            await asyncio.sleep(0)  # the line to be named

    with pytest.raises(Runaway, match=rf"{HERE}:{main.__code__.co_firstlineno + 3}"):
        clockwork.run(main())


def test_a_body_that_makes_task_after_task_is_stopped(clockwork, monkeypatch):
    monkeypatch.setattr("holdfast.replay.loop.FREE_CALLBACKS", 1_000)
    monkeypatch.setattr("holdfast.replay.loop.MOST_CALLBACKS", 10_000)
    made = 0

    async def main() -> None:
        nonlocal made
        while True:
            await asyncio.create_task(asyncio.sleep(0))
            made += 1

    with pytest.raises(Runaway):
        clockwork.run(main())
    assert 1_000 < made < 10_000


def test_a_callback_that_calls_itself_is_stopped(clockwork):
    async def main() -> None:
        loop = asyncio.get_running_loop()

        def again() -> None:
            loop.call_soon(again)

        again()
        await asyncio.Event().wait()

    with pytest.raises(Runaway, match="a callback that calls itself again"):
        clockwork.run(main())


def test_tasks_that_hand_something_round_for_ever_are_stopped(clockwork, a_tenth):
    async def hand_on(left: asyncio.Queue[int], right: asyncio.Queue[int]) -> None:
        while True:
            await right.put(await left.get())

    async def main() -> None:
        left, right = asyncio.Queue[int](), asyncio.Queue[int]()
        left.put_nowait(1)
        await asyncio.gather(hand_on(left, right), hand_on(right, left))

    with pytest.raises(Runaway, match=r"after 50,0\d\d callbacks"):
        clockwork.run(main())


def test_ten_thousand_tasks_are_none_too_many_for_a_tenth_of_what_is_allowed(clockwork, a_tenth):
    async def one(lock: asyncio.Semaphore) -> int:
        async with lock:
            await asyncio.sleep(0)
            return 1

    async def main() -> int:
        lock = asyncio.Semaphore(10)
        return sum(await asyncio.gather(*[one(lock) for _ in range(10_000)]))

    assert clockwork.run(main()).result() == 10_000


def test_time_stands_still_while_it_runs(clockwork):
    async def main() -> list[float]:
        loop = asyncio.get_running_loop()
        times = [loop.time()]
        await asyncio.sleep(0)
        times.append(loop.time())
        await asyncio.sleep(2.5)
        times.append(loop.time())
        return times

    task = clockwork.run(main())
    assert not task.done()
    clockwork.fire()
    assert task.result() == [1000.0, 1000.0, 1002.5]


def test_timers_are_handed_out_and_taken_back(clockwork):
    async def main() -> str:
        async with asyncio.timeout(5):
            await asyncio.sleep(1)
        return "done"

    task = clockwork.run(main())
    assert sorted(when for when, _ in clockwork.timers) == [1001.0, 1005.0]
    clockwork.fire()
    assert task.result() == "done"
    assert 1005.0 in clockwork.cancelled


def test_a_timer_in_the_past_is_ready_at_once(clockwork):
    seen = []
    clockwork.loop.call(clockwork.loop.call_later, 0, seen.append, 1)
    clockwork.loop.call(clockwork.loop.call_at, 5.0, seen.append, 2)
    clockwork.loop.call(clockwork.loop.run_ready)
    assert seen == [1, 2]
    assert clockwork.timers == []


def test_a_cancelled_callback_is_not_called(clockwork):
    seen = []

    def begin() -> None:
        handle = clockwork.loop.call_soon(seen.append, 1)
        handle.cancel()
        assert handle.cancelled()

    clockwork.loop.call(begin)
    clockwork.loop.call(clockwork.loop.run_ready)
    assert seen == []


# ── Names and sets ──────────────────────────────────────────────────────────────────────────────────────────────────


def test_tasks_know_their_path(clockwork):
    paths = []

    async def leaf() -> None:
        paths.append(clockwork.loop.current_path("step"))
        paths.append(clockwork.loop.current_path("step"))

    async def branch() -> None:
        await asyncio.gather(leaf(), leaf())

    async def main() -> None:
        paths.append(clockwork.loop.current_path("step"))
        await asyncio.create_task(branch(), name="given names do not count")
        await leaf()

    clockwork.run(main())
    assert paths == [
        "step#0",
        "branch#0/leaf#0/step#0",
        "branch#0/leaf#0/step#1",
        "branch#0/leaf#1/step#0",
        "branch#0/leaf#1/step#1",
        "step#1",
        "step#2",
    ]


def test_what_a_callback_starts_is_named_as_if_the_body_had_started_it(clockwork):
    paths = []

    async def ask() -> None:
        paths.append(clockwork.loop.current_path("step"))

    async def main() -> None:
        await ask()
        loop = asyncio.get_running_loop()
        for _ in range(2):
            loop.call_soon(lambda: tasks.append(loop.create_task(ask())))
        await asyncio.sleep(0)
        await asyncio.gather(*tasks)
        await ask()

    tasks: list[asyncio.Task[None]] = []
    clockwork.run(main())
    assert paths == ["step#0", "step#1", "step#2", "step#3"]


def test_sets_of_tasks_and_futures_iterate_in_the_order_of_their_making(clockwork):
    async def main() -> bool:
        loop = asyncio.get_running_loop()
        made: list[asyncio.Future[Any]] = []
        for number in range(500):
            made.append(loop.create_future() if number % 2 else asyncio.create_task(asyncio.sleep(9)))
        return list({*made[::-1]}) == made

    assert clockwork.run(main()).result() is True


def test_wait_answers_its_set_in_a_fixed_order(clockwork):
    async def main() -> list[int]:
        async def number(n: int) -> int:
            return n

        tasks = [asyncio.create_task(number(n)) for n in range(100)]
        done, _ = await asyncio.wait(tasks[::-1])
        return [task.result() for task in done]

    assert clockwork.run(main()).result() == list(range(100))


def test_as_completed_takes_tasks_and_refuses_bare_coroutines(clockwork):
    async def number(n: int) -> int:
        return n

    async def good() -> list[int]:
        return [await each for each in asyncio.as_completed([asyncio.create_task(number(n)) for n in range(20)])]

    async def bad() -> None:
        for each in asyncio.as_completed([number(1), number(2), number(3)]):
            await each

    assert clockwork.run(good()).result() == list(range(20))
    assert isinstance(clockwork.run(bad()).exception(), DeterminismError)


# ── The world ───────────────────────────────────────────────────────────────────────────────────────────────────────

KEPT = {
    "call_soon", "call_later", "call_at", "time", "create_future", "create_task", "get_debug", "get_task_factory",
    "is_running", "is_closed", "call_exception_handler", "call_soon_threadsafe",
}  # fmt: skip


@pytest.mark.parametrize("name", sorted({each for each in dir(asyncio.AbstractEventLoop) if each[0] != "_"} - KEPT))
def test_whatever_else_a_loop_can_do_is_refused_by_name(clockwork, name):
    with pytest.raises(IOOutsideStep, match=rf"the workflow body called loop\.{name}: .*@app\.step"):
        getattr(clockwork.loop, name)()


def test_an_error_that_nobody_takes_is_logged_by_type_and_frames(clockwork, caplog):
    def fails() -> None:
        raise LookupError("4111\nERROR all is well")

    async def main() -> None:
        asyncio.get_running_loop().call_soon(fails)

    clockwork.run(main())
    assert "LookupError at\n" in caplog.text and "in fails" in caplog.text
    assert "ERROR all is well\n" not in caplog.text.replace('raise LookupError("4111\\nERROR all is well")\n', "")


def test_hooks_for_asynchronous_generators_are_put_back(clockwork):
    before = sys.get_asyncgen_hooks()

    async def numbers():
        yield 1
        yield 2

    async def main() -> list[int]:
        return [each async for each in numbers()]

    assert clockwork.run(main()).result() == [1, 2]
    assert sys.get_asyncgen_hooks() == before


# ── Leaving memory ──────────────────────────────────────────────────────────────────────────────────────────────────


def test_eviction_unwinds_children_before_parents(clockwork):
    seen = []

    async def child() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            seen.append("child")

    async def main() -> None:
        try:
            await asyncio.create_task(child())
        finally:
            seen.append("parent")

    clockwork.run(main())
    clockwork.loop.evict()
    assert seen == ["child", "parent"]
    assert clockwork.loop.live_tasks() == []


def test_nothing_keeps_an_evicted_loop_alive(clockwork):
    class Marker:
        pass

    def start() -> weakref.ref[Marker]:
        other, marker = Clockwork(), Marker()

        async def main() -> None:
            kept = marker
            await asyncio.Event().wait()
            del kept

        other.run(main())
        other.loop.evict()
        return weakref.ref(marker)

    found = start()
    gc.collect()
    assert found() is None


def test_a_body_sees_its_own_tasks_and_no_other_sees_them(clockwork):
    other = Clockwork()

    async def child() -> None:
        await asyncio.Event().wait()

    async def main() -> list[str]:
        for _ in range(3):
            asyncio.create_task(child())  # noqa: RUF006 - the loop holds them
        return sorted(task.get_name() for task in asyncio.all_tasks())

    assert other.run(child()).done() is False
    assert clockwork.run(main()).result() == ["", "child#0/", "child#1/", "child#2/"]
    assert len(asyncio.all_tasks(clockwork.loop)) == 3
    other.loop.evict()


def test_the_tasks_of_many_bodies_do_not_get_into_each_others_way():
    """Those that were started first in their bodies sort alike there, and must not in asyncio's own set."""

    class Counted(DurableTask):
        compared = 0

        def __eq__(self, other: object) -> bool:
            Counted.compared += 1
            return self is other

        __hash__ = DurableTask.__hash__

    async def main() -> None:
        """It ends at once; its task is kept."""

    tasks = []

    def start(loop: DurableLoop) -> None:
        tasks.append(Counted(main(), loop=loop, path="", context=contextvars.copy_context()))

    for _ in range(2_000):
        body = Clockwork()
        body.loop.call(start, body.loop)
        body.loop.call(body.loop.run_ready)
    assert {hash(task) for task in tasks} == {1}
    assert Counted.compared < 2_000


def test_many_ended_tasks_are_not_kept(clockwork):
    async def main() -> None:
        for _ in range(5_000):
            await asyncio.create_task(asyncio.sleep(0))
        await asyncio.Event().wait()

    clockwork.run(main())
    assert len(clockwork.loop._tasks) < 2_000
    assert len(clockwork.loop.live_tasks()) == 1
