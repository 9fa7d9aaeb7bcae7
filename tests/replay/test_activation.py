"""The activation: a body as a pure function of its entries, without any I/O (DESIGN idea 6)."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

import pytest
from msgspec import Raw

from holdfast.errors import Evicted, NondeterminismError, Runaway
from holdfast.failure import ErrorRegistry, describe
from holdfast.replay.activation import Activation
from holdfast.replay.entries import TIMER, Cancelled, Done, Entry, Failed, Marked, Pending, Received
from holdfast.replay.requests import RUNNING, DueTimer, Raised, Returned

HERE = "tests/replay/test_activation.py"


STARTED_MS = 1_700_000_000_000


class Bench:
    """Runs a body by hand. ``ask`` is what the body calls; the test answers."""

    def __init__(
        self, body: Callable[[Bench], Coroutine[Any, Any, Any]], recorded: Sequence[Entry] = (), *, strict: bool = True
    ) -> None:
        self.activation = Activation(
            lambda: body(self),
            recorded=recorded,
            started_at=STARTED_MS,
            seed="seed",
            strict=strict,
            rebuild=ErrorRegistry().rebuild,
        )
        self.journal: list[Entry] = list(recorded)
        self.asked: list[str] = []
        self.withdrawn: list[str] = []
        self.timers: dict[str, int] = {}
        self.activation.begin()
        self.look()

    async def ask(self, name: str, argument: str = "") -> Any:
        return await self.activation.request("step", name, None, fingerprint=argument, decode=json.loads)

    def look(self) -> None:
        wants = self.activation.take_wants()
        if wants is None:
            return
        for request in wants.asked:
            self.asked.append(request.id)
            if isinstance(request, DueTimer):
                self.timers[request.id] = request.due_at
        self.withdrawn += [request.id for request in wants.withdrawn]
        self.journal += wants.marked

    def answer(self, op: str, value: Any = None, at: int = STARTED_MS) -> None:
        request = self.activation.requested[op]
        self.deliver(Done(op, at, request.kind, Raw(json.dumps(value).encode()), request.fingerprint))

    def fail(self, op: str, error: Exception, at: int = STARTED_MS) -> None:
        request = self.activation.requested[op]
        self.deliver(Failed(op, at, request.kind, describe(error), request.fingerprint))

    def deliver(self, entry: Entry) -> None:
        self.journal.append(entry)
        self.activation.deliver(entry)  # type: ignore[arg-type]
        self.look()

    @property
    def outcome(self) -> Any:
        return self.activation.outcome

    def close(self) -> None:
        self.activation.evict()


@pytest.fixture
def bench():
    benches = []

    def make(*args: Any, **options: Any) -> Bench:
        benches.append(Bench(*args, **options))
        return benches[-1]

    yield make
    for each in benches:
        each.close()


async def two_steps(bench: Bench) -> list[Any]:
    return [await bench.ask("a"), await bench.ask("b")]


# ── Bodies that nothing wakes ───────────────────────────────────────────────────────────────────────────────────────


def test_a_body_that_waits_for_what_nothing_can_wake_says_where(bench):
    async def body(run: Bench) -> None:
        await run.ask("a")
        await asyncio.Event().wait()  # the line to be named

    run = bench(body)
    assert run.activation.stuck() is None
    run.answer("a#0")
    assert f"waits at {HERE}:{body.__code__.co_firstlineno + 2} for" in run.activation.stuck()
    assert run.outcome is RUNNING


def test_tasks_that_wait_for_each_other_say_where(bench):
    async def first(lock: asyncio.Lock) -> None:
        async with lock:
            await asyncio.Event().wait()

    async def body(_: Bench) -> None:
        lock = asyncio.Lock()
        await asyncio.gather(first(lock), first(lock))

    stuck = bench(body).activation.stuck()
    start = first.__code__.co_firstlineno
    assert f"{HERE}:{start + 1}" in stuck
    assert f"{HERE}:{start + 2}" in stuck


@pytest.mark.parametrize("wait", ["operation", "timer", "message"])
def test_a_body_that_something_can_wake_is_not_stuck(bench, wait):
    async def body(run: Bench) -> None:
        match wait:
            case "operation":
                waker = asyncio.create_task(run.ask("a"))
            case "timer":
                waker = asyncio.create_task(asyncio.sleep(1))
            case "message":
                waker = asyncio.create_task(run.activation.mailboxes.of("m").get())
        await asyncio.Event().wait()
        await waker

    assert bench(body).activation.stuck() is None


def test_a_message_that_nobody_waits_for_any_more_wakes_nobody(bench):
    async def body(run: Bench) -> None:
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(run.activation.mailboxes.of("m").get(), 1)
        await asyncio.Event().wait()

    run = bench(body)
    assert run.activation.stuck() is None
    run.answer("timeout#0")
    assert run.activation.stuck() is not None


def test_a_body_that_has_ended_is_not_stuck(bench):
    async def body(_: Bench) -> None:
        return None

    assert bench(body).activation.stuck() is None


def test_a_timer_that_nothing_waits_for_does_not_keep_a_body_from_its_end(bench):
    async def body(run: Bench) -> str:
        asyncio.get_running_loop().call_later(1000, print)
        left = asyncio.create_task(run.ask("left"))
        await asyncio.sleep(0)
        assert not left.done()
        return "done"

    run = bench(body)
    assert run.activation.outcome == Returned("done")
    assert run.withdrawn == ["ask#0/left#0", "timer#0"]


def test_a_body_that_never_waits_is_broken_and_leaves_memory(bench):
    async def body(_: Bench) -> None:
        while True:
            await asyncio.sleep(0)

    run = bench(body)
    assert isinstance(run.activation.broken, Runaway)
    assert run.activation.stuck() is None
    run.close()
    assert run.activation.loop.live_tasks() == []


# ── Live ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_it_runs_until_it_waits_and_says_what_for(bench):
    run = bench(two_steps)
    assert run.asked == ["a#0"]
    assert run.outcome is RUNNING
    run.answer("a#0", 1)
    assert run.asked == ["a#0", "b#0"]
    run.answer("b#0", 2)
    assert run.outcome == Returned([1, 2])


def test_it_needs_no_running_loop_and_leaves_none_behind(bench):
    run = bench(two_steps)
    run.answer("a#0", 1)
    with pytest.raises(RuntimeError):
        asyncio.get_running_loop()


async def test_it_runs_inside_a_host_loop_without_disturbing_it(bench):
    task, loop = asyncio.current_task(), asyncio.get_running_loop()
    run = bench(two_steps)
    run.answer("a#0", 1)
    assert asyncio.current_task() is task
    assert asyncio.get_running_loop() is loop
    await asyncio.sleep(0)
    run.answer("b#0", 2)
    assert run.outcome == Returned([1, 2])


def test_an_error_of_an_operation_is_raised_where_it_is_awaited(bench):
    async def body(run: Bench) -> str:
        try:
            await run.ask("a")
        except KeyError as error:
            return f"caught {error}"
        return "?"

    run = bench(body)
    run.fail("a#0", KeyError("sku"))
    assert run.outcome == Returned("caught 'sku'")


def test_an_error_of_the_body_is_its_outcome(bench):
    async def body(run: Bench) -> None:
        await run.ask("a")
        raise LookupError("lost")

    run = bench(body)
    run.answer("a#0")
    assert isinstance(run.outcome, Raised)
    assert repr(run.outcome.error) == "LookupError('lost')"


def test_time_is_that_of_the_last_delivery_and_never_goes_back(bench):
    times = []

    async def body(run: Bench) -> None:
        for name in "abc":
            times.append(run.activation.now_ms)
            await run.ask(name)
        times.append(run.activation.now_ms)

    run = bench(body)
    run.answer("a#0", at=STARTED_MS + 500)
    run.answer("b#0", at=STARTED_MS + 400)
    run.answer("c#0", at=STARTED_MS + 900)
    assert [each - STARTED_MS for each in times] == [0, 500, 500, 900]


def test_a_timer_is_asked_for_with_its_due_time_and_never_early(bench):
    async def body(run: Bench) -> None:
        await asyncio.sleep(1.0005)
        await asyncio.sleep(2)

    run = bench(body)
    assert run.timers == {"sleep#0": STARTED_MS + 1001}
    run.deliver(Done("sleep#0", STARTED_MS + 1500, "timer"))
    assert run.timers["sleep#1"] == STARTED_MS + 3500


def test_what_the_body_gives_up_is_withdrawn(bench):
    async def body(run: Bench) -> str:
        try:
            async with asyncio.timeout(1):
                await run.ask("a")
        except TimeoutError:
            return "timed out"
        return "in time"

    run = bench(body)
    assert run.asked == ["timeout#0", "a#0"]
    run.deliver(Done("timeout#0", STARTED_MS + 1000, "timer"))
    assert run.withdrawn == ["a#0"]
    assert run.outcome == Returned("timed out")
    other = bench(body)
    other.answer("a#0")
    assert other.withdrawn == ["timeout#0"]
    assert other.outcome == Returned("in time")


def test_what_is_asked_for_and_given_up_at_once_is_not_asked_for_at_all(bench):
    async def body(run: Bench) -> None:
        task = asyncio.create_task(run.ask("a"))
        await asyncio.sleep(0)
        task.cancel()
        await run.ask("b")

    run = bench(body)
    assert run.asked == ["b#0"]


def test_messages_wait_for_whoever_asks(bench):
    async def body(run: Bench) -> list[bytes]:
        await run.ask("a")
        return [bytes(await run.activation.mailboxes.of("m").get()) for _ in range(2)]

    run = bench(body)
    run.deliver(Received("1", "m", STARTED_MS, Raw(b"1")))
    run.deliver(Received("x", "other", STARTED_MS, Raw(b"0")))
    run.answer("a#0")
    run.deliver(Received("2", "m", STARTED_MS, Raw(b"2")))
    assert run.outcome == Returned([b"1", b"2"])
    assert run.activation.mailboxes.unread() == [("other", Raw(b"0"))]


def test_a_cancellation_reaches_the_main_task(bench):
    async def body(run: Bench) -> str:
        try:
            await run.ask("a")
        except asyncio.CancelledError as error:
            await run.ask("clean up")
            return str(error)
        return "?"

    run = bench(body)
    run.deliver(Cancelled(STARTED_MS, "enough"))
    assert run.withdrawn == ["a#0"]
    run.answer("clean up#0")
    assert run.outcome == Returned("enough")


def test_the_end_of_the_body_is_the_end_of_its_tasks(bench):
    async def body(run: Bench) -> str:
        async def background() -> None:
            try:
                await run.ask("forever")
            finally:
                await run.ask("clean up")

        task = asyncio.create_task(background())
        await run.ask("a")
        return f"{task.done()}"

    run = bench(body)
    run.answer("a#0")
    assert run.outcome is RUNNING
    assert run.withdrawn == ["background#0/forever#0"]
    run.answer("background#0/clean up#0")
    assert run.outcome == Returned("False")


# ── Replay ──────────────────────────────────────────────────────────────────────────────────────────────────────────


async def busy(run: Bench) -> list[Any]:
    """A bit of everything, for replaying at every point."""
    seen: list[Any] = []

    async def lane(name: str) -> None:
        for _ in range(2):
            seen.append([name, await run.ask(name), run.activation.now_ms - STARTED_MS])

    async with asyncio.TaskGroup() as group:
        group.create_task(lane("x"))
        group.create_task(lane("y"))
        group.create_task(asyncio.sleep(1))
    seen.append(run.activation.random.random())
    seen.append(run.activation.patched("p"))
    first, _ = await asyncio.wait(
        [asyncio.create_task(run.ask("slow")), asyncio.create_task(run.ask("fast"))],
        return_when=asyncio.FIRST_COMPLETED,
    )
    seen.append([task.result() for task in first])
    seen.append(bytes(await run.activation.mailboxes.of("m").get()).decode())
    return seen


def play(bench, body=busy):
    run = bench(body)
    at = STARTED_MS
    for op, value in [("lane#1/y#0", 1), ("lane#0/x#0", 2), ("lane#1/y#1", 3)]:
        run.answer(op, value, at := at + 100)
    run.deliver(Done("sleep#0/sleep#0", at := at + 900, "timer"))
    run.answer("lane#0/x#1", 4, at := at + 100)
    run.answer("ask#1/fast#0", "fast", at := at + 1)
    run.deliver(Received("1", "m", at + 1, Raw(b'"hello"')))
    return run


def test_a_replay_ends_where_the_first_run_did(bench):
    first = play(bench)
    assert isinstance(first.outcome, Returned)
    again = bench(busy, first.journal)
    assert again.outcome == first.outcome
    assert not again.activation.replaying


def test_a_replay_of_any_prefix_asks_for_what_the_first_run_asked_for_then(bench):
    journal = play(bench).journal
    deliveries = [entry for entry in journal if not isinstance(entry, Marked)]
    for length in range(len(deliveries) + 1):
        first = bench(busy)
        for entry in deliveries[:length]:
            first.deliver(entry)
        again = bench(busy, first.journal)
        assert sorted(again.activation.requested) == sorted(first.activation.requested)
        assert again.activation.now_ms == first.activation.now_ms
        for entry in deliveries[length:]:
            again.deliver(entry)
        assert again.outcome == play(bench).outcome


def test_what_is_recorded_is_not_asked_for_again(bench):
    journal = play(bench).journal
    again = bench(busy, journal[:4])
    assert "lane#1/y#0" not in again.asked
    assert "lane#0/x#1" in again.asked


def test_notes_are_no_deliveries(bench):
    run = bench(two_steps, [Marked("p", STARTED_MS), Done("a#0", STARTED_MS, "step", Raw(b"1"))])
    assert run.asked == ["b#0"]


def test_it_is_quiet_until_it_has_caught_up(bench):
    replaying = []

    async def body(run: Bench) -> None:
        for name in "abc":
            replaying.append(run.activation.replaying)
            await run.ask(name)

    bench(body, [Done("a#0", STARTED_MS, "step"), Done("b#0", STARTED_MS, "step")])
    assert replaying == [True, True, False]


# ── Disagreement ────────────────────────────────────────────────────────────────────────────────────────────────────


def test_the_same_code_that_wants_something_else_is_broken(bench):
    run = bench(two_steps, [Done("c#0", STARTED_MS, "step")])
    assert isinstance(run.activation.broken, NondeterminismError)
    assert "the journal says that c#0 (step) came next, but the code now waits for a#0" in str(run.activation.broken)


def test_the_same_code_in_another_order_is_broken(bench):
    async def body(run: Bench) -> list[Any]:
        return list(await asyncio.gather(run.ask("a"), run.ask("b")))

    first = bench(body)
    first.answer("ask#1/b#0")
    first.answer("ask#0/a#0")
    assert bench(body, first.journal).outcome == Returned([None, None])

    async def sequential(run: Bench) -> list[Any]:
        one = asyncio.create_task(run.ask("a"))
        await one
        return [await asyncio.create_task(run.ask("b"))]

    assert bench(sequential, first.journal).activation.broken is not None
    assert bench(sequential, first.journal, strict=False).outcome == Returned([None])


@pytest.mark.parametrize("strict", [True, False])
def test_another_kind_or_other_arguments_are_broken_and_raise_in_the_body(bench, strict):
    async def body(run: Bench) -> Any:
        return await run.ask("a", "new")

    for entry, told in [
        (Done("a#0", STARTED_MS, "child"), "it was a child and is now a step"),
        (Done("a#0", STARTED_MS, "step", fingerprint="old"), "called with other arguments now"),
    ]:
        run = bench(body, [entry], strict=strict)
        assert told in str(run.activation.broken)
        assert isinstance(run.outcome, Raised)
        assert run.outcome.error is run.activation.broken


def test_an_entry_without_digest_fits_any_arguments(bench):
    async def body(run: Bench) -> Any:
        return await run.ask("a", "new")

    assert bench(body, [Done("a#0", STARTED_MS, "step", Raw(b"7"))]).outcome == Returned(7)


def test_other_code_finds_its_entries_wherever_they_are(bench):
    async def body(run: Bench) -> list[Any]:
        return [await run.ask("new"), await run.ask("b"), await run.ask("a")]

    journal = [
        Done("a#0", STARTED_MS + 1, "step", Raw(b"1")),
        Done("gone#0", STARTED_MS + 2, "step", Raw(b"2")),
        Done("b#0", STARTED_MS + 3, "step", Raw(b"3")),
    ]
    run = bench(body, journal, strict=False)
    assert run.asked == ["new#0"]
    run.answer("new#0", 0, STARTED_MS + 10)
    assert run.outcome == Returned([0, 3, 1])


async def step_and_sleep(run: Bench) -> list[Any]:
    given = await run.ask("a")
    await asyncio.sleep(1)
    return [given, await run.ask("b")]


PASSED = (Pending({"a#0": ""}, (), ()), Done("sleep#0", STARTED_MS + 1_000, TIMER, fingerprint="1000 ms"))
"""The step had begun when code without it waited for the timer."""


def test_a_timer_that_was_passed_over_goes_off_once_when_other_code_comes_to_it_later(bench):
    """Code without the step has waited for the timer; code with it waits for the step first."""
    run = bench(step_and_sleep, PASSED, strict=False)
    assert run.asked == ["a#0"]
    run.answer("a#0", 7, STARTED_MS + 5_000)
    assert run.asked == ["a#0", "b#0"], "the timer is not asked for again"
    run.answer("b#0", 8, STARTED_MS + 6_000)
    assert run.outcome == Returned([7, 8])
    assert bench(step_and_sleep, run.journal, strict=False).outcome == Returned([7, 8])


def test_code_that_comes_back_goes_on_behind_the_step_that_it_had_begun(bench):
    """Code without the step has gone on past its place meanwhile, to the end, and was blocked there."""
    journal = [*PASSED, Done("b#0", STARTED_MS + 2_000, "step", Raw(b"8"))]
    run = bench(step_and_sleep, journal, strict=False)
    assert (run.asked, run.activation.broken) == (["a#0"], None)
    run.answer("a#0", 7, STARTED_MS + 5_000)
    assert (run.asked, run.outcome) == (["a#0"], Returned([7, 8]))


def test_a_result_that_the_code_cannot_read_any_more_is_broken(bench):
    async def body(run: Bench) -> None:
        await run.ask("a")

    run = bench(body, [Done("a#0", STARTED_MS, "step", Raw(b"no json"))])
    assert run.outcome is RUNNING
    assert "a#0: what is recorded does not fit the code's type any more" in str(run.activation.broken)


# ── Leaving memory ──────────────────────────────────────────────────────────────────────────────────────────────────


def test_eviction_runs_finally_blocks_and_refuses_what_they_ask_for(bench):
    seen = []

    async def body(run: Bench) -> None:
        async def child() -> None:
            try:
                await run.ask("b")
            finally:
                seen.append("child")

        task = asyncio.create_task(child())
        try:
            await run.ask("a")
        except Exception:
            seen.append("swallowed")
        finally:
            try:
                await run.ask("clean up")
            except BaseException as error:
                seen.append(type(error).__name__)
                raise
            finally:
                seen.append(f"end {task.done()}")

    run = bench(body)
    run.close()
    assert seen == ["child", "Evicted", "end False"]
    assert run.asked == ["a#0", "child#0/b#0"]


@pytest.mark.parametrize("what", ["sleep", "task", "future", "timeout", "gather", "group"])
def test_eviction_of_a_body_that_tries_everything_on_its_way_out(bench, what):
    async def body(run: Bench) -> None:
        try:
            await run.ask("a")
        finally:
            match what:
                case "sleep":
                    await asyncio.sleep(5)
                case "task":
                    await asyncio.create_task(run.ask("b"))
                case "future":
                    await asyncio.get_running_loop().create_future()
                case "timeout":
                    async with asyncio.timeout(1):
                        await run.ask("b")
                case "gather":
                    await asyncio.gather(run.ask("b"), run.ask("c"))
                case "group":
                    async with asyncio.TaskGroup() as group:
                        group.create_task(run.ask("b"))

    run = bench(body)
    run.close()
    assert run.asked == ["a#0"]


def test_a_body_that_will_not_go_is_left(bench):
    async def body(run: Bench) -> None:
        while True:
            try:
                await run.ask("a")
            except Evicted:
                continue

    bench(body).close()


@pytest.mark.parametrize(("strict", "patched"), [(True, True), (False, False)])
def test_a_body_of_which_nothing_is_recorded_is_patched_only_if_no_other_code_has_begun_it(bench, strict, patched):
    async def body(run: Bench) -> bool:
        return run.activation.patched("p")

    assert bench(body, (), strict=strict).outcome == Returned(patched)
