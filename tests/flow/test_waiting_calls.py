"""Calls that wait for permits hold nothing meanwhile: no thread, and no permit of another limit. In virtual time."""

from __future__ import annotations

import asyncio

import pytest
from msgspec.structs import replace

import holdfast as hf
from holdfast.backends.memory import MemoryData, open_memory_home
from holdfast.flow.overrides import KEY_PREFIX
from holdfast.flow.permits import lenders_of
from holdfast.ports import Home
from holdfast.testing import VirtualClock, run_virtual


def test_blocking_steps_that_wait_for_a_permit_have_no_threads(memory_world) -> None:
    async def main() -> None:
        app = memory_world.app("shop", clock=VirtualClock())
        limit = app.limit("api", permits=0)

        @app.step(limit=limit)
        def limited() -> None: ...

        @app.step
        def free() -> str:
            return "done"

        @app.workflow
        async def waiting() -> None:
            await limited()

        @app.workflow
        async def other() -> str:
            return await free()

        async with app.worker():
            for _ in range(60):  # there are 32 threads
                await waiting.start()
            await asyncio.sleep(0.1)
            since = asyncio.get_running_loop().time()
            assert await other() == "done"
            assert asyncio.get_running_loop().time() - since < 1

    run_virtual(main)


class Two:
    """An app with two limits of one permit each, and workflows that use the one, the other or both for a time."""

    def __init__(self, app: hf.App) -> None:
        self.first, self.second = app.limit("first", permits=1), app.limit("second", permits=1)
        self.calls = 0
        self.one = self._workflow(app, "one", self.first)
        self.other = self._workflow(app, "other", self.second)
        self.both = self._workflow(app, "both", [self.first, self.second])

    def _workflow(self, app: hf.App, name: str, limit: hf.Limit | list[hf.Limit]) -> hf.Workflow[[float], None]:
        @app.step(limit=limit, name=f"call {name}")
        async def call(seconds: float) -> None:
            self.calls += 1
            await asyncio.sleep(seconds)

        @app.workflow(name=name)
        async def job(seconds: float) -> None:
            await call(seconds)

        return job


def test_a_call_of_two_limits_holds_none_while_it_waits_for_the_other(memory_world) -> None:
    async def main() -> None:
        app = memory_world.app("shop", clock=VirtualClock())
        two, loop = Two(app), asyncio.get_running_loop()
        async with app.worker():
            long = await two.other.start(60.0)
            await asyncio.sleep(0.5)
            both = await two.both.start(0.0)
            await asyncio.sleep(0.5)
            since = loop.time()
            for _ in range(20):
                await two.one(0.1)
            assert loop.time() - since < 20 * 0.1 + 1
            await asyncio.gather(long, both)
            assert loop.time() - since < 70

    run_virtual(main)


def test_a_call_of_two_limits_is_not_passed_over_for_ever(memory_world) -> None:
    """Permits of the two are never free in the same moment."""

    async def main() -> None:
        app = memory_world.app("shop", clock=VirtualClock())
        two = Two(app)

        async def always(job: hf.Workflow[[float], None], after: float) -> None:
            await asyncio.sleep(after)
            handles = [await job.start(4.0) for _ in range(3)]
            while True:
                await handles.pop(0)
                handles.append(await job.start(4.0))

        async with app.worker():
            busy = [asyncio.create_task(always(two.one, 0)), asyncio.create_task(always(two.other, 2))]
            await asyncio.sleep(10)
            async with asyncio.timeout(120):
                await two.both(0.0)
            for task in busy:
                task.cancel()

    run_virtual(main)


def kill(app: hf.App, other: hf.App, monkeypatch: pytest.MonkeyPatch) -> None:
    """End a process without a word. The other one sees that it is gone."""
    host, owner = app.runtime().host, app.runtime().home.owner
    assert host is not None
    pools = lenders_of(app.runtime())._pools
    for pool in pools.values():
        pool._keeper.cancel()
    pools.clear()
    host.abandon()
    monkeypatch.setattr(other.runtime().home.doorbell, "alive", lambda each: each != owner)


@pytest.mark.parametrize(("ends", "waited"), [("stops", 11), ("stops", 1), ("dies", 11)])
def test_calls_of_a_process_that_ends_go_on_in_another_one(memory_world, monkeypatch, ends: str, waited: int) -> None:
    """Though they had left memory, and are only due within a minute, or were about to."""

    async def main() -> None:
        first, second = (memory_world.app("shop", clock=VirtualClock()) for _ in range(2))
        two, there = Two(first), Two(second)
        loop = asyncio.get_running_loop()
        async with second.worker():
            async with first.worker():
                long = await there.one.start(waited + 9.0)
                await asyncio.sleep(1)
                handles = [await two.one.start(0.1) for _ in range(5)]
                await asyncio.sleep(waited)  # after 11 s they have left memory, and the loan says so
                if ends == "dies":
                    kill(first, second, monkeypatch)
            since = loop.time()
            elsewhere = [second.handle("one", handle.id) for handle in handles]
            await asyncio.gather(second.handle("one", long.id), *elsewhere)
            assert loop.time() - since < 15

    run_virtual(main)


def test_calls_of_a_limit_that_is_stopped_are_taken_over_when_their_process_dies(memory_world, monkeypatch) -> None:
    async def main() -> None:
        first, second = (memory_world.app("shop", clock=VirtualClock()) for _ in range(2))
        two, there = Two(first), Two(second)
        loop = asyncio.get_running_loop()
        async with second.worker():
            async with first.worker():
                await two.first.change(permits=0)
                await there.one.start(0.0)
                handles = [await two.one.start(0.0) for _ in range(5)]
                await asyncio.sleep(11)
                kill(first, second, monkeypatch)
            await asyncio.sleep(10)
            since = loop.time()
            await there.first.reset()
            await asyncio.gather(*(second.handle("one", handle.id) for handle in handles))
            assert loop.time() - since < 5

    run_virtual(main)


@pytest.mark.parametrize("waited", [1, 10])
def test_a_limit_that_was_stopped_goes_on_where_processes_do_not_hear_of_each_other(monkeypatch, waited: int) -> None:
    """As on AWS. It waited for ever."""
    data, clock = MemoryData(), VirtualClock()

    async def open_home() -> Home:
        return replace(open_memory_home(data=data), writes_are_paid=True, hears_peers=False)

    async def main() -> None:
        first, second = (hf.App("shop", home=open_home, clock=clock) for _ in range(2))
        two, there = Two(first), Two(second)
        async with first.worker(), second:
            monkeypatch.setattr(second.runtime().home.doorbell, "ring", lambda _partition: None)
            await there.first.change(permits=0)
            handle = await two.one.start(0.0)
            await asyncio.sleep(waited)
            await there.first.change(permits=1)
            async with asyncio.timeout(11):
                await handle

    run_virtual(main)


@pytest.mark.parametrize("are_paid", [False, True])
@pytest.mark.parametrize("numbers", [{"permits": 0}, {"rate": hf.Rate(1, per="1d")}])
def test_a_limit_tells_how_many_wait_though_it_lends_nothing(numbers, are_paid) -> None:
    """And where each write is paid for, it is written no more after that."""
    data = MemoryData()

    async def open_home() -> Home:
        return replace(open_memory_home(data=data), writes_are_paid=are_paid)

    async def main() -> None:
        app, loop = hf.App("shop", home=open_home, clock=VirtualClock()), asyncio.get_running_loop()
        limit = app.limit("api", **numbers)

        @app.step(limit=limit)
        async def call() -> None: ...

        @app.workflow
        async def job() -> None:
            await call()

        def writes() -> int:
            (item,) = (each for each in data.partitions[limit.partition].values() if each.sort.startswith(KEY_PREFIX))
            return item.revision  # it counts up with each write

        async with app.worker():
            if limit.numbers.rate is not None:
                await job()  # it has the only token
            handles = [await job.start() for _ in range(10)]
            await asyncio.sleep(12)
            assert (await limit.status()).waiting == 10
            since, told = loop.time(), writes()
            await asyncio.sleep(100)
            assert (await limit.status()).waiting == 10
            assert writes() - told <= (0 if are_paid else (loop.time() - since) / 5)
            for handle in handles:
                await handle.cancel()
            await asyncio.sleep(12)
            assert are_paid or (await limit.status()).waiting == 0

    run_virtual(main)


def test_a_process_that_stops_does_not_wait_for_calls_that_wait(memory_world) -> None:
    async def main() -> None:
        app = memory_world.app("shop", clock=VirtualClock())
        api = app.limit("api", permits=0)

        @app.step(limit=api)
        async def ask() -> None: ...

        @app.workflow
        async def asking() -> None:
            await ask()

        class Asker(hf.Actor, app=app):
            @hf.method(limit=api)
            async def ask(self) -> None: ...

        loop = asyncio.get_running_loop()
        async with app:
            async with app.worker():
                await asking.start()
                await hf.send(Asker.at("one").ask)
                await asyncio.sleep(0.5)
                assert lenders_of(app.runtime()).counted()["api"].waiting == 2
                since = loop.time()
            assert loop.time() - since < 0.1

    run_virtual(main)
