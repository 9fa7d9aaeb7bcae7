"""Waits count from where the body comes to them, durably (G8)."""

from __future__ import annotations

import asyncio

import pytest

import holdfast as hf
from holdfast.testing.virtual_time import run_virtual
from holdfast.testing.world import World

HOUR = 3_600.0


class Shop:
    """A virtual world, its code, and what it has done when."""

    def __init__(self, new_database):
        self.attempts, self.fails = [], False
        self.world = World(self._build, limits=hf.Limits(), database=new_database())

    def _build(self, app, ledger):
        @app.step(retry=hf.Retry(max_attempts=1))
        async def work(name: str) -> str:
            self.attempts.append(name)
            await asyncio.sleep(10)
            if self.fails and name == "b":
                raise OSError("not now")
            return name

        @app.workflow
        async def limited() -> str:
            async with asyncio.timeout(60):
                return await work("a") + await work("b")

        self.limited = limited

        async def user():
            return None

        return user


@pytest.fixture
def in_shop(new_database):
    def run(main):
        async def inside():
            shop = Shop(new_database)
            try:
                await main(shop, await shop.world.client())
            finally:
                await shop.world.close()
            assert shop.world.violations() == []

        run_virtual(inside)

    return run


def test_a_retry_an_hour_later_gives_a_time_out_asked_for_before_finished_steps_its_time_again(in_shop):
    async def main(shop, client):
        shop.fails = True
        await shop.world.boot()
        limited = await client.call(lambda: shop.limited.start(id="l"))
        with pytest.raises(hf.ExecutionFailed):
            await client.call(lambda: limited.result("1h"))
        await asyncio.sleep(HOUR)
        shop.fails = False
        await client.call(limited.retry)
        assert await client.call(lambda: limited.result("1h")) == "ab"
        assert shop.attempts == ["a", "b", "b"]

    in_shop(main)


def test_a_fork_an_hour_later_attempts_the_step(in_shop):
    async def main(shop, client):
        await shop.world.boot()
        limited = await client.call(lambda: shop.limited.start(id="l"))
        assert await client.call(lambda: limited.result("1h")) == "ab"
        await asyncio.sleep(HOUR)
        forked = await client.call(lambda: limited.fork(id="f"))
        assert await client.call(lambda: forked.result("1h")) == "ab"

    in_shop(main)
