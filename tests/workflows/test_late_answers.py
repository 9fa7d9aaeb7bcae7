"""What a caller is told whose process hears late that an execution has ended."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

from msgspec.structs import replace
from tests.kernel.gaps import Gaps

import holdfast as hf
from holdfast.backends.memory import MemoryData, open_memory_home
from holdfast.items import Update
from holdfast.ports import Home
from holdfast.testing import VirtualClock, run_virtual
from holdfast.testing.world import swift


@dataclass
class Shop:
    """Two processes on one store, and what is broken in both."""

    data: MemoryData = field(default_factory=MemoryData)
    clock: VirtualClock = field(default_factory=VirtualClock)
    is_broken: bool = True

    def process(self, gaps: list[Gaps]):
        async def open_home() -> Home:
            home = open_memory_home(data=self.data)
            gaps.append(Gaps(home.store))
            return replace(home, store=gaps[-1])

        app = hf.App("shop", home=open_home, clock=self.clock, limits=swift(hf.Limits()))

        @app.workflow
        async def order() -> str:
            await hf.sleep("1s")
            if self.is_broken:
                raise hf.Terminal("the van is broken")
            return "delivered"

        return app, order


def fails(asked) -> bool:
    return any(isinstance(write, Update) and write.status == "FAILED" for write in asked)


def test_a_caller_that_waits_after_a_retry_is_not_told_of_the_end_before_it():
    """The store has the end, and its answer comes when another process has retried the execution, and ended it."""
    shop, gaps = Shop(), list[Gaps]()
    app, order = shop.process(gaps)
    other, elsewhere = shop.process([])

    async def main():
        waiting = []

        async def retried_elsewhere():
            shop.is_broken = False
            async with other.worker():
                await elsewhere.handle("one").retry()
                assert await elsewhere.handle("one") == "delivered"
            waiting.append(asyncio.ensure_future(order.handle("one").result()))
            await asyncio.sleep(1)

        async with app.worker():
            gaps[-1].once(fails, retried_elsewhere)
            await (await order.start(id="one")).result()
            (late,) = waiting
            assert await late == "delivered"
            assert gaps[-1].is_over

    run_virtual(main)
