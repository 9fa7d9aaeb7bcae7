"""A sweep ends with its worker: nothing is asked of a store that is closed, which would look like a ruined one."""

from __future__ import annotations

import asyncio

import pytest
from msgspec.structs import replace

import holdfast as hf
from holdfast.backends.memory import MemoryData, open_memory_home
from holdfast.items import Item, Put, Update
from holdfast.kernel.sweep import Sweeper
from holdfast.ports import Home, Page
from holdfast.testing import VirtualClock, run_virtual

SWEEP_SECONDS = 60.0


class SlowToLook:
    """A store that is slow to say what is due."""

    def __init__(self, store):
        self._store = store

    def __getattr__(self, name):
        return getattr(self._store, name)

    async def due(self, before, **options):
        await asyncio.sleep(SWEEP_SECONDS)
        return await self._store.due(before, **options)


@pytest.mark.parametrize("while_it_stops", [False, True], ids=["before it stops", "while it stops"])
def test_a_wake_up_to_look_at_all_does_not_outlive_its_worker(while_it_stops):
    data = MemoryData()

    def wake() -> None:
        data.listeners["one"](None)

    async def open_home() -> Home:
        home = open_memory_home(data=data, owner="one")
        return replace(home, store=SlowToLook(home.store))

    app = hf.App("shop", home=open_home, clock=VirtualClock())

    @app.step
    async def finish() -> None:
        while not app.runtime().host.draining:
            await asyncio.sleep(0.1)
        wake()

    @app.workflow
    async def job() -> None:
        await finish()

    async def main() -> None:
        async with app.worker():
            if while_it_stops:
                await job.start(id="1")
                await asyncio.sleep(1)
            else:
                wake()
        await asyncio.sleep(2 * SWEEP_SECONDS)
        assert app.telemetry.counts["store_unusable"] == 0
        assert app.telemetry.counts["ended"] == while_it_stops

    run_virtual(main)


class CountingWrites:
    """A store that counts what is written."""

    def __init__(self, store):
        self._store = store
        self.writes = 0

    def __getattr__(self, name):
        return getattr(self._store, name)

    def write(self, *writes):
        self.writes += 1
        return self._store.write(*writes)


@pytest.mark.parametrize("sweep_seconds", [5.0, 3_600.0], ids=["near", "far apart"])
def test_where_writes_are_paid_a_living_owner_costs_none_and_a_dead_one_is_followed_in_time(sweep_seconds):
    data, clock = MemoryData(), VirtualClock()
    counting: list[CountingWrites] = []

    async def open_home() -> Home:
        home = open_memory_home(data=data, owner="one")
        counting.append(CountingWrites(home.store))
        return replace(home, store=counting[0], writes_are_paid=True, reads_are_paid=True, hears_peers=False)

    app = hf.App("shop", home=open_home, clock=clock, limits=hf.Limits(sweep_seconds=sweep_seconds))

    @app.workflow
    async def job() -> str:
        return "done"

    async def main() -> None:
        elsewhere = open_memory_home(data=data, owner="elsewhere").store
        async with app:
            handle = await job.start(id="1")
        partition = "wf#job#1"
        lease = Update(partition=partition, owner="elsewhere", status="RUNNING", lease_until=clock.now_ms() + 15_000)
        await elsewhere.write(lease)
        counting.clear()
        async with app.worker():
            for _ in range(6 if sweep_seconds < 60 else 0):
                await asyncio.sleep(5)
                await elsewhere.write(replace(lease, lease_until=clock.now_ms() + 15_000))
            assert counting[0].writes == 0
            died_ms = clock.now_ms()
            assert await app.handle("job", "1") == "done"
            assert (clock.now_ms() - died_ms) / 1000 <= 15 + 5 + 1
        assert handle is not None

    run_virtual(main)


class Shares:
    """A home whose workers divide their sweeps: this worker has no share."""

    def __init__(self, store):
        self._store = store
        self.asked, self.left = [], False

    async def due(self, before, *, after, code, has_room, is_new=False):
        if is_new:  # nobody else has
            return await self._store.due(before, after=after)
        self.asked.append((code, has_room))
        return Page(())

    async def leave(self):
        self.left = True


def test_a_worker_looks_at_all_when_it_starts_and_at_its_share_from_then_on():
    codes = set()

    async def look(version: str, running: int) -> None:
        data, shares = MemoryData(), []

        async def open_home() -> Home:
            home = open_memory_home(data=data)
            shares.append(Shares(home.store))
            return replace(home, sweeps=shares[-1])

        app = hf.App("shop", home=open_home, clock=VirtualClock(), limits=hf.Limits(running=running))

        @app.step
        async def work(seconds: int) -> None:
            await asyncio.sleep(seconds)

        @app.workflow(version=version)
        async def job(seconds: int) -> str:
            await work(seconds)
            return "done"

        async with app:
            handle = await job.start(0, id=f"before {version}")
        async with app.worker():
            assert await app.handle("job", f"before {version}") == "done", "the first sweep is whole"
            elsewhere = open_memory_home(data=data, owner="elsewhere").store
            await elsewhere.write(Put(Item(f"wf#job#later {version}", status="READY", due_at=1)))
            long = await job.start(11, id=f"long {version}")
            await asyncio.sleep(11.5)
            ((_, then), (code, now)) = shares[-1].asked
            assert (then, now) == (running > 1, running > 1), "with as much work as it may have it has no room"
            assert (await elsewhere.get(f"wf#job#later {version}")).owner is None, "the share of another worker"
            codes.add(code)
            assert (handle.id, await long) == (f"before {version}", "done")
        assert shares[-1].left

    async def main() -> None:
        await look("1", running=5)
        await look("2", running=1)
        assert len(codes) == 2

    run_virtual(main)


def test_others_come_in_between_the_pages_of_a_sweep():
    async def scenario() -> None:
        considered, most = 0, 0
        app = hf.App("test", home="memory://")

        @app.workflow
        async def nap() -> None:
            await hf.sleep(1)

        async with app.worker():
            host = app.runtime().host
            assert host is not None
            for number in range(2_500):
                await host.home.store.write(Put(Item(f"wf#nap#{number}", status="READY", due_at=4_000_000_000_000)))

            def check_at(*_args: object) -> None:
                nonlocal considered
                considered += 1

            def turn() -> None:
                nonlocal considered, most
                considered, most = 0, max(most, considered)
                asyncio.get_running_loop().call_soon(turn)

            host.check_at = check_at  # type: ignore[method-assign]
            sweeper = Sweeper(host)
            turn()
            await sweeper.sweep(3_000_000_000_000)
            most = max(most, considered)
        assert 0 < most <= 1_000

    asyncio.run(scenario())
