"""Sagas while they fail: nothing slips through, nothing is interrupted, and nobody can hide an undo that gave up."""

from __future__ import annotations

import asyncio
import contextlib

import pytest

import holdfast as hf

ONCE = hf.Retry(max_attempts=1)


class Goods:
    """Steps whose effects and undos are kept in a ledger. A gate holds a step back until the test opens it."""

    def __init__(self, app: hf.App) -> None:
        self.ledger: list[str] = []
        self.gates: dict[str, asyncio.Event] = {}
        self.broken: set[str] = set()

        @app.step(name="take", retry=ONCE)
        async def take(what: str) -> str:
            await self._pass(what)
            self.ledger.append(what)
            return what

        @take.undo(retry=ONCE)
        async def give_back(what: str) -> None:
            self.ledger.append(f"undoing {what}")
            await self._pass(f"not {what}")
            self.ledger.append(f"not {what}")

        @app.step(name="fail", retry=ONCE)
        async def fail(after: str = "") -> None:
            await self._pass(after)
            raise LookupError("no")

        @app.step(name="note")
        async def note(what: str) -> None:
            await self._pass(what)
            self.ledger.append(what)

        self.take, self.fail, self.note = take, fail, note

    async def _pass(self, what: str) -> None:
        if what in self.gates:
            await self.gates[what].wait()
        if what in self.broken:
            raise ConnectionError(f"{what!r} is broken")

    @property
    def kept(self) -> list[str]:
        """What was taken and not given back."""
        undone = [each.removeprefix("not ") for each in self.ledger if each.startswith("not ")]
        taken = [each for each in self.ledger if not each.startswith(("not ", "undoing "))]
        return [each for each in taken if each not in undone]


@pytest.fixture
def goods(app):
    return Goods(app)


async def has(handle, outcome):
    """Whether something in its history went like this."""
    return any(each.outcome == outcome for each in await handle.history())


async def fired(handle):
    """Whether a timer of it is in its history."""
    return any(each.kind == "timer" for each in await handle.history())


async def cancelled(handle):
    """Whether a request to stop is in its history."""
    return await has(handle, "cancel requested")


async def outcome(handle):
    """The status in which it ended."""
    with contextlib.suppress(hf.ExecutionError):
        await handle
    return (await handle.status()).status


# ── Nothing starts any more ─────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("how", ["gather", "shield", "gather in a task", "map", "inner block", "inner block in a task"])
async def test_what_a_sibling_would_do_next_does_not_start_once_the_block_fails(app, goods, eventually, how):
    """One branch fails while the other has a step under way: that is waited for and undone, its next never comes."""
    goods.gates["a"] = asyncio.Event()

    async def both(*_: object) -> None:
        await goods.take("a")
        await goods.take("b")

    async def both_in_a_block() -> None:
        async with hf.saga():
            await both()

    async def branches() -> None:
        match how:
            case "gather":
                await asyncio.gather(both(), goods.fail())
            case "shield":
                await asyncio.gather(asyncio.shield(both()), goods.fail())
            case "gather in a task":
                task = asyncio.create_task(both())
                await asyncio.gather(asyncio.wait({task}), goods.fail())
            case "map":
                await asyncio.gather(hf.map(both, [1]), goods.fail())
            case "inner block":
                await asyncio.gather(both_in_a_block(), goods.fail())
            case "inner block in a task":
                beside = asyncio.create_task(both_in_a_block())
                await goods.fail()
                await beside

    @app.workflow
    async def order() -> str:
        try:
            async with hf.saga():
                await branches()
        except LookupError:
            await goods.note("sorry")
        return "done"

    async with app.worker():
        handle = await order.start(id="o")
        await eventually(lambda: has(handle, "failed"))
        goods.gates["a"].set()
        assert await handle == "done"
    assert goods.ledger == ["a", "undoing a", "not a", "sorry"]


async def test_a_sibling_that_will_not_be_cancelled_is_refused_all_the_same(app, goods):
    refused = []

    @app.workflow
    async def order() -> str:
        async def stubborn() -> None:
            for _ in range(3):
                try:
                    await goods.take("b")
                except asyncio.CancelledError as error:
                    refused.append(str(error))
            await goods.note("went on")

        async def sibling() -> None:
            with contextlib.suppress(asyncio.CancelledError):
                await hf.signal("never")
            await stubborn()

        with contextlib.suppress(LookupError):
            async with hf.saga():
                task = asyncio.create_task(sibling())
                await goods.take("a")
                await goods.fail()
        await task
        return "done"

    async with app.worker():
        assert await order() == "done"
    assert [each for each in goods.ledger if each != "went on"] == ["a", "undoing a", "not a"]
    assert "went on" in goods.ledger
    assert refused == ["step 'take' did not start: the saga block around it is being undone"] * 3


async def test_other_work_started_in_the_block_is_cancelled(app, goods):
    stopped = []

    @app.workflow
    async def order() -> None:
        async def watch() -> None:
            try:
                await hf.sleep("1d")
                await goods.note("it is on its way")
            except asyncio.CancelledError as error:
                stopped.append(str(error))
                raise

        async with hf.saga():
            watching = asyncio.create_task(watch())
            await goods.take("a")
            await goods.fail()
            await watching

    async with app.worker():
        with pytest.raises(hf.ExecutionFailed, match="LookupError"):
            await order()
    assert stopped == ["the saga block that started this task is being undone"]


async def test_a_step_belongs_to_the_block_in_which_its_task_was_started(app, goods):
    """A task from outside of the block that works for it is neither cancelled nor undone with it."""

    @app.workflow
    async def order() -> str:
        jobs = asyncio.Queue()

        async def work() -> None:
            while (job := await jobs.get()) is not None:
                await goods.take(job)

        worker = asyncio.create_task(work())
        with contextlib.suppress(LookupError):
            async with hf.saga():
                jobs.put_nowait("by the worker")
                await goods.take("a")
                await goods.fail()
        jobs.put_nowait("later")
        jobs.put_nowait(None)
        await worker
        return "done"

    async with app.worker():
        assert await order() == "done"
    assert goods.kept == ["by the worker", "later"]
    assert goods.ledger[-2:].count("later") == 1


async def test_what_a_task_does_after_its_block_belongs_to_the_block_around(app, goods):
    @app.workflow
    async def order() -> None:
        async with hf.saga():
            left = asyncio.Event()

            async def late() -> None:
                await left.wait()
                await goods.take("late")

            async with hf.saga():
                await goods.take("a")
                task = asyncio.create_task(late())
            left.set()
            await task
            await goods.fail()

    async with app.worker():
        with pytest.raises(hf.ExecutionFailed, match="LookupError"):
            await order()
    assert goods.ledger == ["a", "late", "undoing late", "not late", "undoing a", "not a"]


async def test_a_task_that_outlives_its_block_goes_on_by_itself(app, goods, eventually):
    goods.gates["slow"] = asyncio.Event()

    @app.workflow
    async def order() -> str:
        async with hf.saga():
            task = asyncio.create_task(goods.take("slow"))
            await goods.take("a")
        await goods.note("out of it")
        return await task

    async with app.worker():
        handle = await order.start(id="o")
        await eventually(lambda: "out of it" in goods.ledger)
        goods.gates["slow"].set()
        assert await handle == "slow"
    assert goods.kept == ["a", "out of it", "slow"]


async def test_a_step_given_up_in_an_inner_block_is_undone_by_the_outer_one(app, goods, eventually):
    goods.gates["a"] = asyncio.Event()

    @app.workflow
    async def order() -> None:
        async with hf.saga():
            async with hf.saga():
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(0.002):
                        await goods.take("a")
            await goods.note("gave up")
            await goods.fail()

    async with app.worker():
        handle = await order.start(id="o")
        await eventually(lambda: "gave up" in goods.ledger)
        goods.gates["a"].set()
        with pytest.raises(hf.ExecutionFailed, match="LookupError"):
            await handle
    assert goods.ledger == ["gave up", "a", "undoing a", "not a"]


async def test_two_blocks_of_one_nest_that_fail_at_once_undo_one_after_the_other(app, goods, eventually):
    goods.gates["not c"] = asyncio.Event()

    @app.workflow
    async def order() -> None:
        async with hf.saga():
            ready = asyncio.Event()

            async def inner() -> None:
                async with hf.saga():
                    await goods.take("b")
                    await goods.take("c")
                    ready.set()
                    raise ValueError("inner")

            await goods.take("a")
            task = asyncio.create_task(inner())
            await ready.wait()
            await goods.note("both")
            await asyncio.gather(task, goods.fail())

    async with app.worker():
        handle = await order.start(id="o")
        await eventually(lambda: has(handle, "failed"))
        goods.gates["not c"].set()
        with pytest.raises(hf.ExecutionFailed):
            await handle
    assert [each for each in goods.ledger if each != "both"] == [
        *"abc",
        *("undoing c", "not c", "undoing b", "not b", "undoing a", "not a"),
    ]


async def test_undos_under_way_when_the_body_ends_go_on(app, goods, eventually):
    """The body has failed for a reason of its own while a block beside it is being undone."""

    @app.workflow
    async def order() -> None:
        async def buy() -> None:
            async with hf.saga():
                await goods.take("a")
                await goods.take("b")
                raise ValueError("changed my mind")

        await asyncio.gather(buy(), goods.fail("undoing"))

    goods.gates |= {"not b": asyncio.Event(), "undoing": asyncio.Event()}
    async with app.worker():
        handle = await order.start(id="o")
        await eventually(lambda: "undoing b" in goods.ledger)
        goods.gates["undoing"].set()
        await eventually(lambda: has(handle, "failed"))
        goods.gates["not b"].set()
        with pytest.raises(hf.ExecutionFailed):
            await handle
    assert goods.ledger == ["a", "b", "undoing b", "not b", "undoing a", "not a"]


async def test_a_block_is_for_one_use(app):
    @app.workflow
    async def order() -> None:
        block = hf.saga()
        async with block:
            pass
        async with block:
            pass

    async with app.worker():
        with pytest.raises(hf.ExecutionFailed, match="a saga is for one block"):
            await order()


# ── Cancelled meanwhile ─────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("after", ["sleeps", "returns", "starts a step", "raises another error"])
async def test_a_cancellation_that_comes_while_a_block_is_undone_is_delivered_after_it(app, goods, after, eventually):
    goods.gates["not a"] = asyncio.Event()

    @app.workflow
    async def order() -> str:
        try:
            async with hf.saga():
                await goods.take("a")
                await goods.fail()
        except LookupError as error:
            match after:
                case "sleeps":
                    await hf.sleep("1d")
                case "starts a step":
                    await goods.note("sorry")
                case "raises another error":
                    raise ValueError("sorry") from error
        return "as if nobody had cancelled"

    async with app.worker():
        handle = await order.start(id="o")
        await eventually(lambda: "undoing a" in goods.ledger)
        await handle.cancel("stop")
        await eventually(lambda: cancelled(handle))
        goods.gates["not a"].set()
        with pytest.raises(hf.ExecutionCancelled, match="stop"):
            await handle
        assert (await handle.status()).status == "CANCELLED"
    assert goods.ledger == ["a", "undoing a", "not a"]


async def test_a_cancellation_while_an_inner_block_is_undone_undoes_the_outer_one_too(app, goods, eventually):
    goods.gates["not b"] = asyncio.Event()

    @app.workflow
    async def order() -> str:
        async with hf.saga():
            await goods.take("a")
            with contextlib.suppress(LookupError):
                async with hf.saga():
                    await goods.take("b")
                    await goods.fail()
            await goods.take("c")
        return "done"

    async with app.worker():
        handle = await order.start(id="o")
        await eventually(lambda: "undoing b" in goods.ledger)
        await handle.cancel("stop")
        await eventually(lambda: cancelled(handle))
        goods.gates["not b"].set()
        assert await outcome(handle) == "CANCELLED"
    assert goods.ledger == ["a", "b", "undoing b", "not b", "undoing a", "not a"]


async def test_the_execution_runs_out_of_time_while_a_block_is_undone(app, goods, eventually):
    goods.gates["not a"] = asyncio.Event()

    @app.workflow
    async def order() -> str:
        with contextlib.suppress(LookupError):
            async with hf.saga():
                await goods.take("a")
                await goods.fail()
        await hf.sleep("1d")
        return "done"

    async with app.worker():
        handle = await order.start(id="o", timeout="300ms")
        await eventually(lambda: has(handle, "timed out"))
        goods.gates["not a"].set()
        assert await outcome(handle) == "TIMED_OUT"
    assert goods.ledger == ["a", "undoing a", "not a"]


async def test_a_time_out_of_the_body_that_comes_while_a_block_is_undone_is_raised_after_it(app, goods, eventually):
    goods.gates["not a"] = asyncio.Event()

    @app.workflow
    async def order() -> str:
        try:
            async with asyncio.timeout(0.2), hf.saga():
                await goods.take("a")
                await goods.fail()
        except TimeoutError as error:
            return f"too late, and before that {error.__context__!r} from {error.__context__.__cause__!r}"
        return "?"

    async with app.worker():
        handle = await order.start(id="o")
        await eventually(lambda: fired(handle))
        goods.gates["not a"].set()
        assert await handle == "too late, and before that CancelledError() from LookupError('no')"
    assert goods.ledger == ["a", "undoing a", "not a"]


async def test_a_cancelled_sibling_does_not_leave_undos_half_way(app, goods, eventually):
    """The task that undoes is cancelled by its task group."""
    goods.gates |= {"not a": asyncio.Event(), "sibling": asyncio.Event()}

    @app.workflow
    async def order() -> str:
        async def buy() -> None:
            async with hf.saga():
                await goods.take("a")
                await goods.fail()

        async def sibling() -> None:
            await goods.note("sibling")
            raise ValueError("sibling")

        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(buy())
                group.create_task(sibling())
        except* ValueError:
            pass
        return "done"

    async with app.worker():
        handle = await order.start(id="o")
        await eventually(lambda: "undoing a" in goods.ledger)
        goods.gates["sibling"].set()
        await eventually(lambda: "sibling" in goods.ledger)
        goods.gates["not a"].set()
        assert await handle == "done"
    assert goods.ledger == ["a", "undoing a", "sibling", "not a"]


# ── Undos that give up ──────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("how", ["except", "gather", "task", "suppressed inside", "cancelled", "new run", "timed out"])
async def test_an_undo_that_gave_up_ends_the_execution_so_whoever_caught_it(app, goods, reaches, how):
    goods.broken.add("not a")

    async def block() -> None:
        async with hf.saga():
            await goods.take("a")
            await goods.fail()

    async def waiting_block() -> None:
        async with hf.saga():
            await goods.take("a")
            await hf.signal("never")

    @app.workflow
    async def order(new_run: bool = False) -> str:
        match how:
            case "except":
                with contextlib.suppress(Exception):
                    await block()
                await goods.note("went on")
            case "gather":
                await asyncio.gather(block(), return_exceptions=True)
            case "task":
                beside = asyncio.create_task(block())
                await asyncio.wait({beside})
            case "suppressed inside":
                async with hf.saga():
                    with contextlib.suppress(hf.CompensationFailed):
                        await block()
            case "cancelled":
                with contextlib.suppress(asyncio.CancelledError):
                    await waiting_block()
            case "new run":
                with contextlib.suppress(Exception):
                    await block()
                hf.continue_as_new(True)
            case "timed out":
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(0.2):
                        await waiting_block()
        return "sorry"

    async with app.worker():
        handle = await order.start(id="o")
        if how == "cancelled":
            await reaches(handle, "SUSPENDED")
            await handle.cancel("stop")
        with pytest.raises(hf.CompensationFailed, match="take.undo gave up with ConnectionError: 'not a' is broken"):
            await handle
        status = await handle.status()
        assert status.status == "COMPENSATION_FAILED"
        assert status.run == 0


async def test_a_retry_goes_on_with_the_undo_that_gave_up_in_a_child(app, goods):
    goods.broken.add("not a")

    @app.workflow
    async def order() -> str:
        with contextlib.suppress(Exception):
            async with hf.saga():
                await goods.take("a")
                await goods.fail()
        return "sorry"

    @app.workflow
    async def day() -> str:
        return await order()

    async with app.worker():
        handle = await day.start(id="d")
        with pytest.raises(hf.CompensationFailed):
            await handle
        goods.broken.clear()
        await handle.retry()
        assert await handle.result("60s") == "sorry"
    assert goods.ledger == ["a", "undoing a", "undoing a", "not a"]


async def test_an_undo_that_gave_up_is_found_again_by_the_next_worker(world, reaches):
    """The first worker dies after the undo gave up and was caught: the second one ends the execution like that."""
    apps = world.app(), world.app()
    shops = [Goods(app) for app in apps]
    for goods in shops:
        goods.broken.add("not a")

    def code(app, goods):
        @app.workflow
        async def order() -> str:
            with contextlib.suppress(Exception):
                async with hf.saga():
                    await goods.take("a")
                    await goods.fail()
            await hf.signal("go")
            return "sorry"

        return order

    first, second = (code(app, goods) for app, goods in zip(apps, shops, strict=True))
    async with apps[0].worker(grace=0):
        handle = await first.start(id="o")
        await reaches(handle, "SUSPENDED")
    async with apps[1].worker():
        handle = second.handle("o")
        await handle.signal("go")
        with pytest.raises(hf.CompensationFailed):
            await handle
    assert shops[1].ledger == []


@pytest.mark.parametrize("policy", ["stop", "continue"])
async def test_what_becomes_of_the_older_steps_when_an_undo_gives_up(app, goods, policy):
    goods.broken |= {"not b", "not d"}

    @app.workflow
    async def order() -> None:
        async with hf.saga(on_undo_failure=policy):
            for what in "abcd":
                await goods.take(what)
            await goods.fail()

    async with app.worker():
        handle = await order.start(id="o")
        with pytest.raises(hf.CompensationFailed):
            await handle
        error = (await handle.status()).error or ""
    undone = [each for each in goods.ledger if each.startswith("not ")]
    if policy == "stop":
        assert undone == []
        assert "take.undo gave up with ConnectionError: 'not d' is broken (it is to undo take#3)" in error
        assert "3 older steps are not undone either: take.undo of take#2, take.undo of take#1, take.undo of" in error
    else:
        assert undone == ["not c", "not a"]
        for what, operation in (("d", "take#3"), ("b", "take#1")):
            assert f"'not {what}' is broken (it is to undo {operation})" in error
        assert "not undone either" not in error


@pytest.mark.parametrize("policy", ["stop", "continue"])
async def test_what_gave_up_in_an_inner_block_counts_for_the_outer_one(app, goods, policy):
    goods.broken.add("not b")

    @app.workflow
    async def order() -> None:
        async with hf.saga(on_undo_failure=policy):
            await goods.take("a")
            async with hf.saga():
                await goods.take("b")
                await goods.fail()

    async with app.worker():
        handle = await order.start(id="o")
        with pytest.raises(hf.CompensationFailed, match="'not b' is broken") as caught:
            await handle
    assert str(caught.value).count("'not b' is broken") == 1
    assert ("not a" in goods.ledger) == (policy == "continue")


async def test_the_undos_of_several_blocks_that_gave_up_are_all_named(app, goods):
    goods.broken |= {"not a", "not b"}

    @app.workflow
    async def order() -> str:
        for what in "ab":
            with contextlib.suppress(hf.CompensationFailed):
                async with hf.saga():
                    await goods.take(what)
                    await goods.fail()
        return "sorry"

    async with app.worker():
        handle = await order.start(id="o")
        with pytest.raises(hf.CompensationFailed, match="'not a' is broken.*'not b' is broken"):
            await handle


async def test_a_block_knows_two_policies(app):
    @app.workflow
    async def order() -> None:
        async with hf.saga(on_undo_failure="ignore"):  # type: ignore[arg-type]
            pass

    async with app.worker():
        with pytest.raises(hf.ExecutionFailed, match='on_undo_failure is "stop" or "continue", not .ignore.'):
            await order()
