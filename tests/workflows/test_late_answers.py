"""What a caller is told whose process hears late that an execution has ended."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import dataclass, field

import pytest
from msgspec.structs import replace
from tests.kernel.gaps import Gaps

import holdfast as hf
from holdfast.backends.memory import MemoryData, open_memory_home
from holdfast.items import HEAD, Update
from holdfast.ports import Home
from holdfast.testing import VirtualClock, run_virtual
from holdfast.testing.world import swift


@dataclass
class Shop:
    """Two processes on one store, and what is broken in both."""

    data: MemoryData = field(default_factory=MemoryData)
    clock: VirtualClock = field(default_factory=VirtualClock)
    is_broken: bool = True
    takes: str = ""

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
            if self.takes:
                await hf.sleep(self.takes)
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


def test_a_parent_that_waits_after_a_retry_is_not_told_of_the_end_before_it():
    """The same, for an execution of that process that awaits it: by its handle, or as its child under a given id."""
    shop, gaps = Shop(takes="20s"), list[Gaps]()
    app, order = shop.process(gaps)
    other, elsewhere = shop.process([])

    @app.workflow
    async def follow() -> str:
        return await order.handle("one")

    @app.workflow
    async def call() -> str:
        return await order.options(id="one")()

    async def main():
        waiting = []

        async def retried_elsewhere():
            shop.is_broken = False
            async with other.worker():
                await elsewhere.handle("one").retry()
                await asyncio.sleep(1)
                assert (await elsewhere.handle("one").status()).status == "SUSPENDED"
            waiting.extend([await follow.start(), await call.start()])
            await asyncio.sleep(0.05)  # they still have their leases

        async with app.worker():
            gaps[-1].once(fails, retried_elsewhere)
            await order.start(id="one")
            await asyncio.sleep(10)
            assert gaps[-1].is_over
            assert [await each.result() for each in waiting] == ["delivered", "delivered"]

    run_virtual(main)


@pytest.mark.parametrize("named", ["a child", "a child by its id", "another execution"])
def test_a_parent_that_was_retried_after_its_child_is_not_told_of_the_end_before_that(named):
    """It waits in another process, and hears by a message."""
    shop, gaps = Shop(takes="20s"), list[Gaps]()
    app, order = shop.process(gaps)
    other, elsewhere = shop.process([])
    children: list[str] = []

    def declare(app, order):
        @app.workflow
        async def pack() -> str:
            match named:
                case "a child":
                    waits = order()
                case "a child by its id":
                    waits = order.options(id="one")()
                case _:
                    waits = order.handle("one").result()
            (outcome, _) = await asyncio.gather(waits, fail_at_first())
            return outcome

        async def fail_at_first() -> None:
            await hf.sleep("2s")
            if shop.is_broken:
                raise hf.Terminal("the shop is closed")

        return pack

    pack, packed_elsewhere = declare(app, order), declare(other, elsewhere)

    async def main():
        async def all_retried_elsewhere():
            with suppress(hf.ExecutionFailed):
                await pack.handle("p").result()
            shop.is_broken = False
            async with other.worker():
                await elsewhere.handle(*children).retry()
                await packed_elsewhere.handle("p").retry()
                await asyncio.sleep(1)
            told.set()

        def fails_in(asked) -> bool:
            if not fails(asked) or not asked[0].partition.startswith("wf#order#"):
                return False
            children.append(asked[0].partition.removeprefix("wf#order#"))
            return True

        told = asyncio.Event()
        async with app.worker():
            gaps[-1].once(fails_in, all_retried_elsewhere)
            if named == "another execution":
                await order.start(id="one")
            await pack.start(id="p")
            await told.wait()
            assert gaps[-1].is_over
            assert await pack.handle("p").result() == "delivered"

    run_virtual(main)


@pytest.mark.parametrize("how", ["deleted", "terminated"])
def test_a_parent_that_was_retried_is_not_told_of_an_end_from_outside_that_stands_no_more(how):
    """Whoever has ended it is slow: before its messages go, the end was taken back, or deleted and another followed."""
    shop, gaps = Shop(is_broken=how == "deleted", takes="20s"), list[Gaps]()
    app, order = shop.process(gaps)
    other, elsewhere = shop.process([])
    is_closed = [True]

    def declare(app, order):
        @app.workflow
        async def pack() -> str:
            waits = order.handle("one").result() if how == "deleted" else left_to_itself()
            (outcome, _) = await asyncio.gather(waits, look())
            return outcome

        def left_to_itself():
            return order.options(id="one", on_parent_end="leave")()

        async def look() -> None:
            await hf.sleep("500ms")
            if is_closed:
                raise hf.Terminal("the shop is closed")

        return pack

    pack, packed_elsewhere = declare(app, order), declare(other, elsewhere)

    async def main():
        async def all_begun_again():
            shop.is_broken = False
            is_closed.clear()
            async with other.worker():
                if how == "deleted":
                    await elsewhere.handle("one").retry()
                else:
                    await elsewhere.handle("one").delete()
                    await elsewhere.start(id="one")
                await packed_elsewhere.handle("p").retry()
                await asyncio.sleep(1)

        reads = []

        def reads_it_whole(asked) -> bool:
            reads.extend([asked] if asked == ("wf#order#one", HEAD) else [])
            return len(reads) == 2

        def terminates(asked) -> bool:
            return any(isinstance(write, Update) and write.status == "TERMINATED" for write in asked)

        async with app.worker():
            if how == "deleted":
                await order.start(id="one")
            with suppress(hf.ExecutionFailed):
                await (await pack.start(id="p")).result()
            await asyncio.sleep(1.5)
            if how == "deleted":
                gaps[-1].once(reads_it_whole, all_begun_again)
                with pytest.raises(hf.InvalidState, match="was changed by another process"):
                    await order.handle("one").delete()
            else:
                gaps[-1].once(terminates, all_begun_again)
                await order.handle("one").terminate()
            assert gaps[-1].is_over
            assert await pack.handle("p").result() == "delivered"

    run_virtual(main)
