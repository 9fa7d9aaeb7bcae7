"""Long loops fold: a new run with other arguments and an empty journal."""

from __future__ import annotations

import asyncio

import pytest

import holdfast as hf


async def test_fifty_runs_of_one_execution(app):
    done = []

    @app.step
    async def note(n: int) -> None:
        done.append(n)

    @app.workflow
    async def loop(left: int, total: int = 0) -> int:
        await note(left)
        if left == 0:
            return total
        hf.continue_as_new(left - 1, total=total + left)

    async with app.worker():
        handle = await loop.start(50, id="l")
        assert await handle == 50 * 51 // 2
        status = await handle.status()
        assert status.run == 50
        assert len(await handle.history()) == 1
    assert done == list(range(50, -1, -1))


async def test_runs_begin_with_an_empty_history_and_keep_what_is_the_executions(app):
    @app.workflow
    async def loop(left: int) -> list[str]:
        info = hf.current()
        assert isinstance(info, hf.WorkflowInfo)
        if left:
            hf.continue_as_new(left - 1)
        return [info.id, str(info.run), info.tags["team"]]

    async with app.worker():
        handle = await loop.start(3, id="l", tags={"team": "blue"})
        assert await handle == ["l", "3", "blue"]
        assert (await handle.status()).tags == {"team": "blue"}


async def test_signals_not_taken_are_carried_over_in_order(app):
    @app.workflow
    async def loop(seen: list[int]) -> list[int]:
        seen = [*seen, await hf.signal("n", int)]
        if len(seen) == 6:
            return seen
        await hf.sleep("1ms")
        hf.continue_as_new(seen)

    async with app.worker():
        handle = await loop.start([], id="l")
        for n in range(6):
            await handle.signal("n", n)
        assert await handle == list(range(6))


async def test_signals_sent_all_the_time_are_all_seen_once(app):
    @app.workflow
    async def loop(seen: list[int]) -> list[int]:
        for _ in range(3):
            seen = [*seen, await hf.signal("n", int)]
            if len(seen) == 60:
                return seen
        hf.continue_as_new(seen)

    async with app.worker():
        handle = await loop.start([], id="l")
        for n in range(60):
            await handle.signal("n", n)
            if n % 7 == 0:
                await asyncio.sleep(0.001)
        assert await handle == list(range(60))


async def test_what_still_runs_is_cancelled_and_cleans_up(app):
    done = []

    @app.step
    async def note(what: str) -> None:
        done.append(what)

    @app.workflow
    async def loop(left: int) -> str:
        async def background() -> None:
            try:
                await hf.signal("never")
            finally:
                await note(f"cleaned up {left}")

        task = asyncio.create_task(background())
        await hf.sleep("1ms")
        if left:
            hf.continue_as_new(left - 1)
        return f"left {task.done()}"

    async with app.worker():
        assert await loop(1) == "left False"
    assert done == ["cleaned up 1", "cleaned up 0"]


async def test_a_handler_for_every_exception_does_not_swallow_it(app):
    @app.workflow
    async def loop(left: int) -> str:
        try:
            if left:
                hf.continue_as_new(left - 1)
        except Exception:
            return "swallowed"
        return "done"

    async with app.worker():
        assert await loop(2) == "done"


@pytest.mark.parametrize("where", ["group", "member", "gather", "timeout"])
async def test_it_works_from_within_asyncios_blocks(app, where):
    @app.workflow
    async def loop(left: int) -> str:
        async def go_on() -> None:
            if left:
                hf.continue_as_new(left - 1)

        match where:
            case "group":
                async with asyncio.TaskGroup() as group:
                    group.create_task(asyncio.sleep(0))
                    await go_on()
            case "member":
                async with asyncio.TaskGroup() as group:
                    group.create_task(go_on())
            case "gather":
                await asyncio.gather(go_on(), asyncio.sleep(0))
            case "timeout":
                async with asyncio.timeout(5):
                    await go_on()
        return "done"

    async with app.worker():
        assert await loop(2) == "done"


async def test_wrong_arguments_are_refused_where_it_is_called(app):
    @app.workflow
    async def loop(left: int) -> str:
        try:
            hf.continue_as_new("two")
        except hf.InvalidInput as error:
            return str(error)

    async with app.worker():
        assert "argument 'left' of workflow 'loop'" in await loop(1)


async def test_outside_a_body_it_is_refused():
    with pytest.raises(hf.InvalidInput, match="hf.continue_as_new works inside a workflow body only"):
        hf.continue_as_new()


async def test_a_parent_waits_for_the_last_run_of_its_child(app):
    @app.workflow
    async def child(left: int) -> str:
        await hf.sleep("1ms")
        if left:
            hf.continue_as_new(left - 1)
        return "last"

    @app.workflow
    async def parent() -> str:
        return await child(3)

    async with app.worker():
        assert await parent.start(id="p") and await parent.handle("p").result("60s") == "last"


async def test_children_of_different_runs_do_not_meet(app):
    @app.workflow
    async def child(n: int) -> int:
        return n

    @app.workflow
    async def loop(left: int, seen: list[int]) -> list[int]:
        seen = [*seen, await child(left)]
        if left:
            hf.continue_as_new(left - 1, seen)
        return seen

    async with app.worker():
        assert await loop(3, []) == [3, 2, 1, 0]


async def test_the_old_journal_leaves_nothing_behind_in_the_way(sqlite_world):
    """The journals of earlier runs may stay, or be cleared; a run of another number does not see them."""
    app = sqlite_world.app()

    @app.step
    async def step(n: int) -> int:
        return n

    @app.workflow
    async def loop(left: int) -> int:
        found = await step(left)
        await hf.sleep("1ms")
        if left:
            hf.continue_as_new(left - 1)
        return found

    async with app.worker():
        assert await loop(10) == 0


async def test_new_code_takes_over_with_the_next_run(world):
    def code(app, word):
        @app.step
        async def old() -> str:
            return "old"

        @app.step
        async def new() -> str:
            return "new"

        async def first(left: int, seen: list[str]) -> list[str]:
            seen = [*seen, await old()]
            await hf.signal("go")
            hf.continue_as_new(left - 1, seen)

        async def second(left: int, seen: list[str]) -> list[str]:
            if hf.current().run == 0:
                seen = [*seen, await old()]
                await hf.signal("go")
                hf.continue_as_new(left - 1, seen)
            return [*seen, await new()]

        return app.workflow(name="loop")(first if word == "old" else second)

    one, two = world.app(), world.app()
    before, after = code(one, "old"), code(two, "new")
    async with one.worker():
        await before.start(1, [], id="l")
        await asyncio.sleep(0.005)
    async with two.worker():
        await after.handle("l").signal("go")
        assert await after.handle("l") == ["old", "new"]
        assert (await after.handle("l").status()).version == after.version
