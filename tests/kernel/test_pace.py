"""The turnstile in front of claims, creations and renewals."""

from __future__ import annotations

import asyncio

from holdfast.kernel.pace import Turnstile
from holdfast.testing import run_virtual


async def through(turnstile: Turnstile, name: str, order: list[str]) -> None:
    async with turnstile:
        order.append(name)
        await asyncio.sleep(1)


def test_whatever_comes_later_waits_behind_what_was_let_in_and_has_not_run_yet():
    async def main() -> list[str]:
        turnstile, order = Turnstile(1, 1), list[str]()
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(through(turnstile, "first", order))
            tasks.create_task(through(turnstile, "second", order))
            tasks.create_task(through(turnstile, "third", order))
            await asyncio.sleep(1)  # the first leaves at this moment
            tasks.create_task(through(turnstile, "late", order))
        return order

    assert run_virtual(main) == ["first", "second", "third", "late"]


def test_a_task_that_is_cancelled_as_it_is_let_in_gives_its_place_on():
    async def main() -> list[str]:
        turnstile, order = Turnstile(1, 1), list[str]()
        async with turnstile:
            cancelled = asyncio.create_task(through(turnstile, "cancelled", order))
            next_one = asyncio.create_task(through(turnstile, "next", order))
            await asyncio.sleep(0)
        cancelled.cancel()
        await asyncio.wait({cancelled, next_one})
        return order

    assert run_virtual(main) == ["next"]


def test_a_narrow_turnstile_lets_in_no_more_than_few_and_a_wide_one_all_that_wait():
    async def main() -> tuple[int, int]:
        turnstile, order = Turnstile(3, 1), list[str]()
        turnstile.narrow()
        waiting = [asyncio.create_task(through(turnstile, str(number), order)) for number in range(3)]
        await asyncio.sleep(0.5)
        narrow = len(order)
        turnstile.widen()
        await asyncio.sleep(0.1)
        wide = len(order)
        await asyncio.wait(waiting)
        return narrow, wide

    assert run_virtual(main) == (1, 3)
