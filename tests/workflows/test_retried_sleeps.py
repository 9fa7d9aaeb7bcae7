"""A sleep that a retry has set aside: it is over for the same sleep, and for no other one (G2, G13)."""

from __future__ import annotations

import asyncio

import pytest

import holdfast as hf
from holdfast.testing import World, run_virtual
from holdfast.testing.world import swift

HOUR = 3_600.0


class Site:
    """Processes with code that fails first, and sleeps after the failure for as long as the code says."""

    def __init__(self):
        self.seconds, self.version, self.is_broken = HOUR, "1", True

    def build(self, app, ledger):
        seconds = self.seconds

        @app.step(retry=hf.Retry(max_attempts=1))
        async def charge() -> str:
            ledger.attempts["charge"] += 1
            if self.is_broken:
                raise OSError("not now")
            return "paid"

        @app.workflow(version=self.version)
        async def order() -> str:
            paid, _ = await asyncio.gather(charge(), hf.sleep(seconds), return_exceptions=True)
            if isinstance(paid, BaseException):
                raise paid
            return paid

        async def user():
            return order

        return user


async def retried_after_a_deploy(seconds: float) -> tuple[float, str, int]:
    """How long a retried execution takes, under code that sleeps so long; what it answers; how often it charged."""
    site = Site()
    world = World(site.build, limits=swift())
    loop = asyncio.get_running_loop()
    try:
        first = await world.boot()
        order = await first.call(first.user)
        handle = await first.call(lambda: order.start(id="o"))
        with pytest.raises(hf.ExecutionFailed):
            await first.call(handle.result)
        await first.stop()
        site.is_broken = False
        if seconds != HOUR:
            site.seconds, site.version = seconds, "2"
        second = await world.boot()
        handle = (await second.call(second.user)).handle("o")
        began = loop.time()
        await second.call(handle.retry)
        answer = await second.call(handle.result)
        assert world.violations() == []
        return loop.time() - began, answer, world.ledger.attempts["charge"]
    finally:
        await world.close()


def test_the_same_sleep_is_over():
    took, answer, charged = run_virtual(lambda: retried_after_a_deploy(HOUR))
    assert took < HOUR / 10
    assert (answer, charged) == ("paid", 2)


@pytest.mark.parametrize("seconds", [HOUR / 2, 2 * HOUR])
def test_a_sleep_that_new_code_made_longer_or_shorter_is_another_one(seconds):
    took, answer, charged = run_virtual(lambda: retried_after_a_deploy(seconds))
    assert seconds <= took < seconds * 1.1
    assert (answer, charged) == ("paid", 2)
