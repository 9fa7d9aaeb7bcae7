"""Children: executions started by executions."""

from __future__ import annotations

import asyncio
import re

import pytest

import holdfast as hf
from holdfast.items import Update
from holdfast.workflows.launch import cancel_before_start, launch
from holdfast.workflows.record import NO_LONGER_AWAITED


class Declined(Exception):
    pass


@pytest.fixture
def child(app, ran):
    @app.step(name="work", raises=(Declined,), retry=hf.Retry(max_attempts=1))
    async def work(n: int) -> int:
        ran[n] += 1
        if n < 0:
            raise Declined("negative", n)
        return 2 * n

    @app.workflow
    async def child(n: int, wait: bool = False) -> int:
        if wait:
            await hf.signal("go")
        return await work(n)

    return child


async def test_awaiting_a_workflow_in_a_body_makes_a_child(app, child):
    @app.workflow
    async def parent() -> list[int]:
        return [await child(1), await child(n=2)]

    async with app.worker():
        handle = await parent.start(id="p")
        assert await handle == [2, 4]
        found = [each.id for each in (await app.executions("child")).executions]
        history = await handle.history()
    assert len(found) == 2
    assert all(id.startswith("~") for id in found)
    assert [(event.kind, event.name) for event in history] == [("child", "child#0"), ("child", "child#1")]


@pytest.mark.parametrize("count", [200])
async def test_hundreds_of_children_at_once(app, child, ran, count):
    @app.workflow
    async def parent() -> int:
        return sum(await asyncio.gather(*[child(n) for n in range(count)]))

    async with app.worker():
        assert await parent() == count * (count - 1)
    assert ran == dict.fromkeys(range(count), 1)


async def test_children_have_children(app):
    @app.workflow
    async def tree(depth: int) -> int:
        if depth == 0:
            return 1
        return sum(await asyncio.gather(tree(depth - 1), tree(depth - 1)))

    async with app.worker():
        assert await tree(4) == 16


async def test_a_chain_of_children_that_is_long(app):
    @app.workflow
    async def chain(left: int) -> int:
        return 1 + await chain(left - 1) if left else 0

    async with app.worker():
        assert await chain(120) == 120


async def test_more_children_than_a_process_works_on_at_once(world):
    app = world.app(limits=hf.Limits(running=2, linger_seconds=0.005, near_seconds=0.005))

    @app.workflow
    async def leaf(n: int) -> int:
        await hf.sleep("1ms")
        return n

    @app.workflow
    async def parent() -> int:
        return sum(await asyncio.gather(*[leaf(n) for n in range(10)]))

    async with app.worker():
        assert await parent() == 45


async def test_a_child_that_fails_raises_in_its_parent_with_its_cause(app, child):
    @app.workflow
    async def parent() -> list[str]:
        try:
            await child(-1)
        except hf.ExecutionFailed as error:
            return [error.error_type, error.error_message, type(error.__cause__).__name__, str(error)]
        return []

    async with app.worker():
        handle = await parent.start(id="p")
        kind, message, cause, told = await handle
    assert kind == "Declined"
    assert message == "('negative', -1)"
    assert re.search(r"child '~[^']+' ended as FAILED: Declined", told)
    assert cause == "Declined"


async def test_a_child_that_is_cancelled_or_terminated_or_late_raises_in_its_parent(app, child, reaches, eventually):
    @app.workflow(timeout="10ms")
    async def late() -> None:
        await hf.signal("never")

    @app.workflow
    async def parent() -> list[str]:
        async def outcome(call) -> str:
            try:
                await call
            except hf.ExecutionError as error:
                return type(error).__name__
            return "?"

        return list(await asyncio.gather(outcome(child(1, True)), outcome(child(2, True)), outcome(late())))

    async with app.worker():
        handle = await parent.start(id="p")

        async def waiting() -> list[str]:
            page = await app.executions("child", status="SUSPENDED")
            return sorted(each.id for each in page.executions)

        await eventually(lambda: _two(waiting))
        first, second = await waiting()
        await child.handle(first).cancel()
        await child.handle(second).terminate()
        *first_two, last = await handle.result(timeout="60s")
        assert sorted(first_two) == ["ExecutionCancelled", "ExecutionTerminated"]
        assert last == "ExecutionTimedOut"


async def _two(waiting):
    return len(await waiting()) == 2


async def test_cancelling_the_parent_cancels_its_children(app, child, reaches, eventually):
    @app.workflow
    async def parent() -> None:
        await asyncio.gather(child(1, True), child(2, True))

    async with app.worker():
        handle = await parent.start(id="p")
        await reaches(handle, "SUSPENDED")
        await handle.cancel()
        with pytest.raises(hf.ExecutionCancelled):
            await handle

        async def all_cancelled() -> bool:
            page = await app.executions("child", status="CANCELLED")
            return len(page.executions) == 2

        await eventually(all_cancelled)


async def test_a_child_nobody_waits_for_any_more_is_cancelled(app, child, eventually):
    @app.workflow
    async def parent() -> str:
        try:
            async with asyncio.timeout(0.02):
                await child(1, True)
        except TimeoutError:
            return "gave up"
        return "?"

    async with app.worker():
        assert await parent() == "gave up"

        async def cancelled() -> bool:
            return len((await app.executions("child", status="CANCELLED")).executions) == 1

        await eventually(cancelled)


async def test_a_parent_that_fails_cancels_the_children_it_leaves_behind(app, child, eventually):
    @app.workflow
    async def parent() -> None:
        task = asyncio.create_task(child(1, True))
        await hf.sleep("10ms")
        raise ValueError(f"left {task.done()}")

    async with app.worker():
        with pytest.raises(hf.ExecutionFailed, match="left False"):
            await parent()

        async def cancelled() -> bool:
            return len((await app.executions("child", status="CANCELLED")).executions) == 1

        await eventually(cancelled)


async def test_a_detached_child_lives_on(app, child):
    @app.workflow
    async def parent() -> str:
        handle = await child.start(5, True, id="detached", tags={"kind": "detached"})
        return handle.id

    async with app.worker():
        assert await parent() == "detached"
        handle = child.handle("detached")
        assert (await handle.status()).tags == {"kind": "detached"}
        await handle.signal("go")
        assert await handle == 10


async def test_a_detached_child_without_an_id_gets_one_that_replay_repeats(app, child, ran):
    @app.workflow
    async def parent() -> list[str]:
        ids = [(await child.start(n)).id for n in range(2)]
        await hf.sleep("2ms")
        return ids

    async with app.worker():
        handle = await parent.start(id="p")
        ids = await handle
        assert len(set(ids)) == 2
        assert await asyncio.gather(*[child.handle(id) for id in ids]) == [0, 2]
    assert ran == {0: 1, 1: 1}


async def test_a_detached_start_is_idempotent_and_a_mismatch_is_told(app, child):
    @app.workflow
    async def parent() -> str:
        await child.start(1, id="x")
        await child.start(1, id="x")
        try:
            await child.start(2, id="x")
        except hf.IdempotencyMismatch as error:
            return str(error)
        return "?"

    async with app.worker():
        assert "child 'x' was already started with another input" in await parent()


async def test_a_body_awaits_an_execution_that_somebody_else_started(app, child):
    @app.workflow
    async def parent() -> list[int]:
        detached = await child.start(3, id="mine")
        return list(await asyncio.gather(detached, child.handle("other"), child.handle("late").result("60s")))

    async with app.worker():
        await (await child.start(7, id="other"))
        late = await child.start(9, True, id="late")
        handle = await parent.start(id="p")
        await asyncio.sleep(0.01)
        await late.signal("go")
        assert await handle == [6, 14, 18]


async def test_awaiting_one_that_is_not_there(app, child):
    @app.workflow
    async def parent() -> str:
        try:
            await child.handle("nobody")
        except hf.NotFound as error:
            return str(error)
        return "?"

    async with app.worker():
        assert "there is no execution 'nobody' of workflow 'child'" in await parent()


async def test_waiting_in_a_body_can_be_limited(app, child):
    @app.workflow
    async def parent() -> str:
        handle = await child.start(1, True, id="slow")
        try:
            await handle.result(timeout="5ms")
        except TimeoutError:
            return "gave up"
        return "?"

    async with app.worker():
        assert await parent() == "gave up"
        status = await child.handle("slow").status()
        assert status.status in {"RUNNING", "SUSPENDED"}


async def test_wrong_arguments_to_a_child_are_refused_where_it_is_called(app, child):
    @app.workflow
    async def parent() -> list[str]:
        told = []
        for args in (("one",), (), (1, False, 3), (object(),)):
            try:
                await child(*args)
            except hf.InvalidInput as error:
                told.append(str(error))
        return told

    async with app.worker():
        wrong, missing, many, unfit = await parent()
    assert "argument 'n' of workflow 'child'" in wrong
    assert "missing argument 'n'" in missing
    assert "too many" in many
    assert "argument 'n' of workflow 'child'" in unfit


async def test_a_crash_of_the_parent_starts_no_child_twice(world, ran, eventually):
    started = asyncio.Event()

    def code(app):
        @app.step
        async def work(n: int) -> int:
            ran[n] += 1
            if len(ran) == 3:
                started.set()
            return n

        @app.workflow
        async def child(n: int) -> int:
            await work(n)
            await hf.signal("go")
            return n

        @app.workflow
        async def parent() -> int:
            return sum(await asyncio.gather(*[child(n) for n in range(3)]))

        return parent, child

    first, second = world.app(), world.app()
    before, _ = code(first)
    after, child = code(second)
    async with first.worker(grace=0):
        await before.start(id="p")
        await started.wait()
    async with second.worker():
        for found in (await second.executions("child")).executions:
            await child.handle(found.id).signal("go")
        assert await after.handle("p").result(timeout="60s") == 3
    assert ran == {0: 1, 1: 1, 2: 1}


async def test_only_the_present_owner_of_a_parent_retries_its_cancelled_child(app, child, monkeypatch, eventually):
    """The start was under way for so long that another process took the parent over, and gave up on the child."""
    starts = []

    async def late(home, host, workflow, order, clock):
        if order.parent is not None:
            starts.append(order)
            newer = Update(partition=order.parent.partition, owner="a newer one", lease_until=2**50, add_epoch=1)
            await home.store.write(newer)
            assert await cancel_before_start(home, workflow, order, NO_LONGER_AWAITED, clock)
        return await launch(home, host, workflow, order, clock)

    monkeypatch.setattr("holdfast.workflows.operations.child.launch", late)

    @app.workflow
    async def parent() -> int:
        return await child(1, wait=True)

    async with app.worker():
        await parent.start(id="p")
        await eventually(lambda: app.telemetry.counts["fenced"])
        (order,) = starts
        assert (await child.handle(order.id).status()).status == "CANCELLED"


async def test_tags_are_handed_down(app, child):
    @app.workflow
    async def parent() -> int:
        return await child(1)

    async with app.worker():
        await (await parent.start(tags={"team": "blue"}))
        (found,) = (await app.executions("child")).executions
    assert found.tags == {"team": "blue"}


async def test_a_child_on_another_worker_ends_its_parents_wait(world):
    """Parent and child may run in different processes; the parent hears of the end all the same."""

    def code(app, *, with_child):
        if with_child:

            @app.workflow
            async def child() -> str:
                return "from there"
        else:

            @app.workflow
            async def child() -> str:
                raise AssertionError("never here")

        @app.workflow
        async def parent() -> str:
            handle = child.handle("c")
            return await handle

        return parent, child

    one, two = world.app("one"), world.app("two")
    parent, _ = code(one, with_child=False)
    _, child = code(two, with_child=True)
    async with two:
        await child.start(id="c")
    async with two.worker(), one:
        await child.handle("c")
        handle = await parent.start(id="p")
        assert await handle.result(timeout="60s") == "from there"
