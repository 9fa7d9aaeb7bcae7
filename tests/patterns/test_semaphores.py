"""Semaphores: so many at once, each permit with fences of its own."""

from __future__ import annotations

import asyncio

import pytest

import holdfast as hf
from holdfast.testing import ProcessDied


def test_at_most_so_many_are_inside(simulate):
    async def story(machines):
        inside, most, fences = 0, 0, {}

        async def work(process):
            nonlocal inside, most
            for _ in range(4):
                async with process.app.semaphore("x", 3) as held:
                    inside += 1
                    most = max(most, inside)
                    fences.setdefault(held.permit, []).append(held.fence)
                    await asyncio.sleep(0.3)
                    inside -= 1

        processes = [await machines.boot() for _ in range(4)]
        await asyncio.gather(*(process.call(lambda p=process: work(p)) for process in processes for _ in range(2)))
        assert most == 3
        assert sum(map(len, fences.values())) == 32
        for permit, seen in fences.items():
            assert permit in range(3)
            assert seen == sorted(set(seen))

    simulate(story)


def test_a_free_permit_costs_one_write_to_take_and_one_to_give_back(simulate):
    async def story(machines):
        process = await machines.boot()

        async def enter_and_leave():
            async with process.app.semaphore("x", 2):
                pass

        for _ in range(40):  # until each permit has been used once
            await process.call(enter_and_leave)
        before = process.wire.writes
        for _ in range(10):
            await process.call(enter_and_leave)
        assert process.wire.writes == before + 20

    simulate(story)


def test_one_task_may_hold_several_permits(simulate):
    async def story(machines):
        process = await machines.boot()

        async def work():
            async with process.app.semaphore("x", 2) as one, process.app.semaphore("x", 2) as two:
                assert {one.permit, two.permit} == {0, 1}
                with pytest.raises(hf.WaitTimeout):
                    await process.app.semaphore("x", 2, wait="1s").__aenter__()

        await process.call(work)

    simulate(story)


@pytest.mark.not_on_dynamodb("nobody can tell there that a process has died: its lease has to run out")
def test_the_permits_of_the_dead_come_back(simulate):
    async def story(machines):
        dying, other = await machines.boot(), await machines.boot()

        async def take_one():
            async with dying.app.semaphore("x", 2, ttl="1h"):
                await asyncio.sleep(1e6)

        holding = [asyncio.ensure_future(dying.call(take_one)) for _ in range(2)]
        await asyncio.sleep(0.1)
        dying.crash()
        for each in holding:
            with pytest.raises(ProcessDied):
                await each

        async def work():
            async with other.app.semaphore("x", 2, wait=0) as one, other.app.semaphore("x", 2, wait=0) as two:
                return one.fence, two.fence

        assert await other.call(work) == (2, 2)

    simulate(story)


@pytest.mark.parametrize("permits", [0, -1, 1001, 2.0, "3", True])
def test_bad_input_is_refused_where_it_is_given(permits):
    with pytest.raises(hf.InvalidInput, match="1 to 1000 permits"):
        hf.App("shop").semaphore("x", permits)
