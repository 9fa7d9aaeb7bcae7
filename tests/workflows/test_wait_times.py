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
        self.attempts, self.fails, self.replayed = [], False, []
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
        async def sleeps() -> None:
            self.replayed.append(hf.current().replaying)
            await hf.sleep("10m")

        @app.workflow
        async def limited() -> str:
            async with asyncio.timeout(60):
                return await work("a") + await work("b")

        self.sleeps, self.limited = sleeps, limited

        async def user():
            return None

        return user

    def now(self):
        return asyncio.get_running_loop().time()


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


def test_a_worker_that_comes_an_hour_late_sleeps_as_long_and_attempts_every_step(in_shop):
    async def main(shop, client):
        sleeps = await client.call(lambda: shop.sleeps.start(id="s"))
        limited = [await client.call(lambda n=n: shop.limited.start(id=f"l-{n}")) for n in range(100)]
        await asyncio.sleep(HOUR)
        await shop.world.boot()
        came = shop.now()
        for each in limited:
            assert await client.call(lambda each=each: each.result("1h")) == "ab"
        await client.call(lambda: sleeps.result("1h"))
        assert 595 < shop.now() - came < 660

    in_shop(main)


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


@pytest.mark.parametrize("ends", ["crash", "stop"])
def test_a_worker_that_ends_during_a_sleep_does_not_begin_it_anew(in_shop, ends):
    async def main(shop, client):
        first = await shop.world.boot()
        await client.call(lambda: shop.sleeps.start(id="s"))
        began = shop.now()
        await asyncio.sleep(300)
        if ends == "crash":
            first.crash()
            shop.world.database.forget(first.name)
        else:
            await first.stop()
        await shop.world.boot()
        # The handle is of the app that was built last: the others are gone.
        await client.call(lambda: shop.sleeps.handle("s").result("1h"))
        assert 600 <= shop.now() - began < 640
        assert shop.replayed == [False, True]

    in_shop(main)
