"""The clean-up of an asynchronous generator that a body has left is a part of the body: durable, once, replayed."""

from __future__ import annotations

from collections.abc import AsyncIterator

import holdfast as hf
from holdfast.app import App
from holdfast.testing import Ledger, Scenario, crash_at_every_write
from holdfast.testing.world import User


def left_generators(app: App, ledger: Ledger) -> User:
    """One is left in the middle, one just before the body ends; two executions take turns."""

    @app.step
    async def read(page: int) -> int:
        return ledger.effect(page)

    @app.step
    async def close(name: str) -> str:
        return ledger.effect(name)

    @app.workflow
    async def job(name: str) -> list[int]:
        async def pages(of: str) -> AsyncIterator[int]:
            try:
                for number in range(5):
                    yield await read(number)
            finally:
                await close(f"{name} {of}")

        async def until(last: int, of: str) -> int:
            async for number in pages(of):
                if number == last:
                    break
            return last

        first = await until(1, "first")
        await hf.sleep("1s")
        return [first, await until(0, "second")]

    async def user() -> list[list[int]]:
        handles = [await job.start(name, id=name) for name in ("a", "b")]
        return [await each for each in handles]

    return user


def test_a_crash_at_any_write_closes_each_once():
    assert crash_at_every_write(Scenario("left generators", left_generators)).points > 0


async def test_the_clean_up_is_in_the_history_of_its_own_execution(app):
    @app.step
    async def close(name: str) -> None: ...

    @app.workflow
    async def job(name: str) -> str:
        async def numbers() -> AsyncIterator[int]:
            try:
                yield 1
                yield 2
            finally:
                await close(name)

        async for _ in numbers():
            break
        return name

    async with app.worker():
        handles = [await job.start(name, id=name) for name in "ab"]
        for handle in handles:
            assert await handle == handle.id
            (event,) = await handle.history()
            assert (event.kind, event.name) == ("step", "numbers.aclose#0/close#0")
