"""Bodies that name their places: what the history tells, replay, retries, children and callbacks of one."""

from __future__ import annotations

import asyncio

import pytest

import holdfast as hf
from holdfast.replay.naming import place


async def test_all_that_a_place_asks_for_is_in_the_history_under_its_name(app, reaches):
    tokens = []

    @app.step
    async def ask(token: str) -> None:
        tokens.append(token)

    @app.workflow
    async def pack(box: int) -> int:
        return box

    async def ship(item: int) -> int:
        with place(f"Map#0[{item}]/Ship#0"):
            return await pack(item)

    @app.workflow
    async def order() -> list[int]:
        with place("Confirm#0"):
            answer = hf.callback(int)
            await ask(answer.token)
            confirmed = await answer
        with place("Wait#0"):
            await hf.sleep(0.01)
        return [confirmed, *await asyncio.gather(ship(2), ship(1))]

    async with app.worker():
        handle = await order.start(id="o")
        await reaches(handle, "SUSPENDED")
        await app.callback(tokens[0]).complete(7)
        assert await handle == [7, 2, 1]
        names = [event.name for event in await handle.history()]
    assert names[:3] == ["Confirm#0/ask#0", "!callback/Confirm#0/callback#0", "Wait#0/sleep#0"]
    assert sorted(names[3:]) == ["Map#0[1]/Ship#0/pack#0", "Map#0[2]/Ship#0/pack#0"]


async def test_a_failed_child_in_a_place_is_found_and_retried_with_its_parent(app):
    broken, keys = [True], []

    @app.step(retry=hf.Retry(max_attempts=1))
    async def load(box: int) -> int:
        keys.append(hf.current().idempotency_key)
        if broken:
            raise LookupError("no truck")
        return box

    @app.workflow
    async def pack(box: int) -> int:
        with place("Load#0"):
            return await load(box)

    @app.workflow
    async def order() -> int:
        with place("Pack#0"):
            return await pack(3)

    async with app.worker():
        handle = await order.start(id="o")
        with pytest.raises(hf.ExecutionFailed, match="no truck"):
            await handle
        broken.clear()
        await handle.retry()
        assert await handle == 3
    assert len(keys) == 2 and len(set(keys)) == 1


async def test_other_code_goes_on_with_what_a_place_has_done(world, reaches):
    ran = []

    def code(app, *, version):
        @app.step
        async def charge(cents: int) -> int:
            ran.append(cents)
            return cents

        async def visit(cents: int) -> int:
            with place(f"Pay#{cents}"):
                return await charge(cents)

        async def together() -> list[int]:
            async with asyncio.TaskGroup() as group:
                second, first = group.create_task(visit(18)), group.create_task(visit(17))
            return [first.result(), second.result()]

        @app.workflow(version=version)
        async def job() -> list[int]:
            got = [await visit(17), await visit(18)] if version == "1" else await together()
            with place("End#0"):
                await hf.signal("go")
            return got

        return job

    old, new = world.app(), world.app()
    before, after = code(old, version="1"), code(new, version="2")
    async with old.worker(grace=0):
        await reaches(await before.start(id="j"), "SUSPENDED")
    async with new.worker():
        handle = after.handle("j")
        await handle.signal("go")
        assert await handle == [17, 18]
    assert ran == [17, 18]


async def test_a_run_that_continues_as_new_has_its_places_again(app):
    keys = []

    @app.step
    async def charge() -> None:
        keys.append(hf.current().idempotency_key)

    @app.workflow
    async def job(left: int) -> str:
        with place("Pay#0"):
            await charge()
        if left:
            hf.continue_as_new(left - 1)
        return "done"

    async with app.worker():
        assert await (await job.start(2, id="j")) == "done"
    assert len(set(keys)) == 3


async def test_a_delayed_start_is_before_the_first_place(app):
    @app.step
    async def charge() -> int:
        return 1

    @app.workflow
    async def job() -> int:
        with place("Pay#0"):
            return await charge()

    async with app.worker():
        assert await (await job.start(id="j", delay="10ms")) == 1
