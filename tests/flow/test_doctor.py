"""What ``holdfast doctor`` finds about queues."""

from __future__ import annotations

import asyncio

import pytest

import holdfast as hf
from holdfast.cli.checks.queues import check_queues
from holdfast.testing import PATIENT, VirtualClock, run_virtual


@pytest.fixture
def app(memory_world) -> hf.App:
    return memory_world.app("shop", clock=VirtualClock(), limits=PATIENT)


def test_a_queue_that_moves_is_fine_and_one_that_was_paused_and_forgotten_is_told(app) -> None:
    mail = app.queue("mail", limit=1)

    @app.workflow(queue=mail)
    async def letter() -> None:
        await hf.sleep("1d")

    async def main() -> None:
        async with app.worker():
            await mail.pause()
            await letter.start(id="a")
            (found,) = await check_queues(app.runtime())
            assert found.level == "ok"
            await asyncio.sleep(7_200)
            (found,) = await check_queues(app.runtime())
            assert found.level == "warn" and "shop/mail is paused" in found.told and "queue resume" in found.told

    run_virtual(main)


def test_a_queue_for_which_no_worker_decides_is_told(app) -> None:
    mail = app.queue("mail", limit=1)

    @app.workflow(queue=mail)
    async def letter() -> None:
        return None

    async def main() -> None:
        async with app:
            await letter.start(id="a")
            await asyncio.sleep(120)
            (found,) = await check_queues(app.runtime())
            assert found.level == "warn" and "no worker decides for shop/mail, where 1 wait" in found.told

    run_virtual(main)


def test_a_circle_of_queues_that_wait_for_each_other_is_told(app) -> None:
    left, right = app.queue("left", limit=1), app.queue("right", limit=1)

    @app.workflow(queue=left)
    async def leaf_left() -> None:
        return None

    @app.workflow(queue=right)
    async def leaf_right() -> None:
        return None

    @app.workflow(queue=left)
    async def from_left() -> None:
        await hf.sleep(5)
        await leaf_right()

    @app.workflow(queue=right)
    async def from_right() -> None:
        await hf.sleep(5)
        await leaf_left()

    async def main() -> None:
        async with app.worker():
            await from_left.start(id="l")
            await asyncio.sleep(1)
            assert [each.level for each in await check_queues(app.runtime())] == ["ok"]
            await from_right.start(id="r")
            await asyncio.sleep(300)
            (found,) = await check_queues(app.runtime())
            assert found.level == "warn" and "a circle: left → right → left" in found.told
            await left.change(limit=2)
            await asyncio.sleep(60)
            (found,) = await check_queues(app.runtime())
            assert found.level == "ok"

    run_virtual(main)


def test_executions_that_wait_for_others_in_their_own_full_queue_are_told(app) -> None:
    mail = app.queue("mail", limit=1)

    @app.workflow(queue=mail)
    async def leaf() -> None:
        return None

    @app.workflow(queue=mail)
    async def stuck() -> None:
        await (await leaf.start(id="leaf"))

    async def main() -> None:
        async with app.worker():
            handle = await stuck.start(id="s")
            await asyncio.sleep(90)
            (found,) = await check_queues(app.runtime())
            assert found.level == "warn" and "a circle: mail → mail" in found.told and "as children" in found.told
            await mail.change(limit=2)
            await asyncio.wait_for(handle.result(), 600)
            (found,) = await check_queues(app.runtime())
            assert found.level == "ok"

    run_virtual(main)


def test_what_waits_in_a_queue_that_the_code_has_left_is_told(memory_world) -> None:
    before, after = (memory_world.app("shop", clock=VirtualClock(), limits=PATIENT) for _ in range(2))
    for each, name in ((before, "old"), (after, "new")):
        queue = each.queue(name, limit=1)

        @each.workflow(queue=queue)
        async def letter() -> None:
            return None

    async def main() -> None:
        async with before:
            await before.registry.workflows["letter"].start(id="a")
        async with after.worker():
            await asyncio.sleep(10)
            (found,) = await check_queues(after.runtime())
            assert found.level == "warn" and "executions of letter wait in shop/old" in found.told
            assert "into new since" in found.told

    run_virtual(main)


async def test_a_home_without_queues_has_no_line(memory_world) -> None:
    async with memory_world.app("shop") as app:
        assert await check_queues(app.runtime()) == []
