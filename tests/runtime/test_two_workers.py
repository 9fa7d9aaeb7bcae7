"""Two workers on one home: what one does the other hears of, and a stale one can do no harm (G3)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import Any

import pytest
from msgspec import UNSET
from msgspec.structs import replace

import holdfast as hf
from holdfast.backends.memory import MemoryData, open_memory_home
from holdfast.backends.memory.doorbell import MemoryDoorbell
from holdfast.errors import Refused, StoreUnavailable
from holdfast.hints import Hint, News
from holdfast.items import UNOWNED, Item, Put, Update, Write
from holdfast.ports import Home, Page
from holdfast.testing import VirtualClock, run_virtual


class Stalling:
    """A store that stalls its process: its leases lapse, and it goes on as if nothing had been."""

    def __init__(self, store: Any) -> None:
        self._store = store
        self.before_the_inbox: Callable[[], Awaitable[None]] | None = None

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def write(self, *writes: Write) -> Sequence[Item | None]:
        renews = isinstance(writes[0], Update) and writes[0].lease_until is not UNSET and writes[0].owner is UNSET
        if renews:
            raise StoreUnavailable("it is stalled")
        return await self._store.write(*writes)

    async def query(self, partition: str, **options: Any) -> Page:
        if options.get("prefix") == "i#" and self.before_the_inbox is not None:
            happens, self.before_the_inbox = self.before_the_inbox, None
            await happens()
        return await self._store.query(partition, **options)


def shop(data: MemoryData, wrap: Callable[[Any], Any] = lambda store: store, **limits: Any) -> tuple[hf.App, Any, Any]:
    """An app on a home that it shares with the others, its workflow, and the tokens its steps were handed."""

    async def open_shared() -> Home:
        home = open_memory_home(data=data)
        return replace(home, store=wrap(home.store))

    app = hf.App("shop", home=open_shared, limits=hf.Limits(**limits))
    tokens: list[str] = []

    @app.step
    async def ask(token: str) -> None:
        tokens.append(token)

    @app.workflow
    async def job(run: int) -> str:
        await hf.signal("go")
        if run == 0:
            hf.continue_as_new(1)
        answer = hf.callback(str)
        await ask(answer.token)
        return await answer

    return app, job, tokens


async def test_whoever_waits_in_a_worker_hears_at_once_that_another_worker_has_finished() -> None:
    data = MemoryData()
    waiting, here, _ = shop(data, running=1, linger_seconds=9.0)
    working, _, tokens = shop(data)
    async with waiting.worker(), working.worker():
        await here.start(1, id="busy")  # it has no room for another
        handle = await here.start(1, id="j")
        await handle.signal("go")
        await eventually(lambda: tokens)
        result = asyncio.ensure_future(handle.result())
        await asyncio.sleep(0.05)
        await waiting.callback(tokens[0]).complete("yes")
        async with asyncio.timeout(1):  # by himself he would look again after two
            assert await result == "yes"


class CountingClaims:
    """A store that notes what its process tries to claim."""

    def __init__(self, store: Any) -> None:
        self._store = store
        self.claimed: list[str] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def write(self, *writes: Write) -> Sequence[Item | None]:
        self.claimed += [each.partition for each in writes if isinstance(each, Update) and each.add_epoch]
        return await self._store.write(*writes)


def test_what_has_ended_in_one_worker_is_not_claimed_by_another() -> None:
    data, stores, heard = MemoryData(), [], []
    ids = [f"n{number}" for number in range(20)]

    def counting(store: Any) -> CountingClaims:
        stores.append(CountingClaims(store))
        return stores[-1]

    def napping(wrap: Callable[[Any], Any] = lambda store: store) -> tuple[hf.App, Any]:
        async def open_shared() -> Home:
            home = open_memory_home(data=data)
            return replace(home, store=wrap(home.store))

        app = hf.App("naps", home=open_shared, clock=VirtualClock())

        @app.workflow
        async def nap() -> str:
            await hf.sleep("1s")
            return "rested"

        return app, nap

    async def main() -> None:
        (working, here), (other, there) = napping(), napping(counting)
        async with working.worker(), other.worker():
            other.runtime().wake_listeners.add_for_all(heard.append)
            for id in ids:
                await here.start(id=id)
            assert await asyncio.gather(*[there.handle(id).result() for id in ids]) == ["rested"] * 20
            await asyncio.sleep(60)
        assert sorted(heard) == sorted(f"wf#nap#{id}" for id in ids)
        assert working.telemetry.counts["ended"] == 20
        assert stores[0].claimed == []

    run_virtual(main)


def test_a_copy_in_memory_is_dropped_at_the_end_elsewhere_without_a_claim() -> None:
    data, stores = MemoryData(), []

    def counting(store: Any) -> CountingClaims:
        stores.append(CountingClaims(store))
        return stores[-1]

    async def main() -> None:
        first, here, _ = shop(data, counting)
        async with first.worker():
            handle = await here.start(1, id="j")
            await eventually(lambda: first.telemetry.counts["suspended"])
            assert list(first.runtime().host.entities) == ["wf#job#j"]
            claims = len(stores[0].claimed)
            passer_by = open_memory_home(data=data)
            passer_by.doorbell.ring(News("wf#job#j"))
            await eventually(lambda: not first.runtime().host.entities)
            await asyncio.sleep(60)
            assert len(stores[0].claimed) == claims
            await passer_by.doorbell.close()
            await handle.cancel()  # news that was wrong cost a replay, and nothing else
            with pytest.raises(hf.ExecutionCancelled):
                await handle

    run_virtual(main)


class Deaf(MemoryDoorbell):
    """No wake-up reaches its process: each is only a hint."""

    def listen(self, heard: Callable[[Hint], None]) -> None:
        pass


def test_one_that_waits_looks_by_itself_if_its_worker_has_stopped_before_a_new_run() -> None:
    data, clock, begun = MemoryData(), VirtualClock(), []

    def counting(open_data: Callable[[], Awaitable[Home]]) -> tuple[hf.App, Any]:
        app = hf.App("shop", home=open_data, clock=clock)

        @app.step
        async def finish() -> None:
            begun.append(app)
            await eventually(lambda: app.runtime().host.draining)

        @app.workflow
        async def count(left: int) -> str:
            if left:
                await finish()
                hf.continue_as_new(left - 1)
            return "counted"

        return app, count

    async def open_deaf() -> Home:
        home = open_memory_home(data=data, owner="deaf")
        await home.doorbell.close()
        return replace(home, doorbell=Deaf(data, "deaf"))

    async def open_shared() -> Home:
        return open_memory_home(data=data)

    async def main() -> None:
        (waiting, count), (working, _) = counting(open_deaf), counting(open_shared)
        async with waiting:
            async with waiting.worker():
                result = asyncio.ensure_future((await count.start(1, id="c")).result())
                await eventually(lambda: begun)
            async with working.worker(), asyncio.timeout(60):
                assert await result == "counted"
        assert begun == [waiting]

    run_virtual(main)


async def eventually(check: Callable[[], Any]) -> None:
    async with asyncio.timeout(60):
        while True:
            if check():
                return
            await asyncio.sleep(0.005)


@pytest.mark.slow
async def test_a_stale_owner_cannot_take_a_message_out_of_the_inbox() -> None:
    data = MemoryData()
    stalled: list[Stalling] = []

    def stall(store: Any) -> Stalling:
        stalled.append(Stalling(store))
        return stalled[0]

    stale, here, _ = shop(data, stall, lease_ms=150, sweep_seconds=9.0, linger_seconds=9.0)
    fresh, there, tokens = shop(
        data, lease_ms=150, sweep_seconds=0.5, courtesy_ms=1, linger_seconds=0.01, near_seconds=0.01
    )

    async def overtake() -> None:
        """Others take over, go on to the next run, ask for a callback, and go away; then it is answered."""
        async with fresh.worker():
            await there.handle("j").signal("go")
            await there.handle("j").signal("go")
            await eventually(lambda: tokens)
        async with fresh:
            await fresh.callback(tokens[0]).complete("yes")

    async with stale.worker():
        handle = await here.start(0, id="j")
        await handle.signal("other")  # who was never written to does not look into his inbox
        stalled[0].before_the_inbox = overtake
        stale._heard("wf#job#j")  # somebody rings
        await eventually(lambda: stale.telemetry.counts["fenced"])
    async with fresh.worker():
        assert await there.handle(handle.id).result("60s") == "yes"


class Delaying(Stalling):
    """A stalled process whose request to start a child is under way for long: it arrives whoever has given up on it."""

    def __init__(self, store: Any) -> None:
        super().__init__(store)
        self.about_to_start, self.goes_on, self.arrived = asyncio.Event(), asyncio.Event(), asyncio.Event()

    async def write(self, *writes: Write) -> Sequence[Item | None]:
        starts = isinstance(writes[0], Put) and writes[0].item.partition.startswith("wf#child")
        if starts and not self.about_to_start.is_set():
            self.about_to_start.set()
            return await asyncio.shield(asyncio.ensure_future(self._write_late(*writes)))
        return await super().write(*writes)

    async def _write_late(self, *writes: Write) -> Sequence[Item | None]:
        await self.goes_on.wait()
        try:
            return await super().write(*writes)
        finally:
            self.arrived.set()


def family(data: MemoryData, wrap: Callable[[Any], Any] = lambda store: store) -> tuple[hf.App, Any, Any]:
    async def open_shared() -> Home:
        home = open_memory_home(data=data)
        return replace(home, store=wrap(home.store))

    app = hf.App("family", home=open_shared, limits=hf.Limits(lease_ms=400, sweep_seconds=0.05))

    @app.workflow
    async def child() -> None:
        await hf.signal("never")

    @app.workflow
    async def parent() -> str:
        try:
            async with asyncio.timeout(0.1):
                await child()
        except TimeoutError:
            return "gave up"
        return "never"

    return app, parent, child


@pytest.mark.slow
async def test_a_stale_owner_cannot_start_a_child_that_nobody_waits_for_any_more() -> None:
    data = MemoryData()
    stalled: list[Delaying] = []

    def delay(store: Any) -> Delaying:
        stalled.append(Delaying(store))
        return stalled[0]

    stale, here, child = family(data, delay)
    fresh, there, _ = family(data)
    async with stale.worker():
        await here.start(id="p")
        await stalled[0].about_to_start.wait()
        async with fresh.worker():
            assert await there.handle("p") == "gave up"
            stalled[0].goes_on.set()
            await stalled[0].arrived.wait()
            with pytest.raises(hf.ExecutionCancelled):
                await (await only_child(fresh, child)).result("60s")


async def only_child(app: hf.App, child: Any) -> Any:
    """The handle of the one execution of this workflow."""
    (found,) = (await app.executions(child.name)).executions
    return child.handle(found.id)


def kin(data: MemoryData, wrap: Callable[[Any], Any] = lambda store: store, **limits: Any) -> tuple[hf.App, Any, Any]:
    async def open_shared() -> Home:
        home = open_memory_home(data=data)
        return replace(home, store=wrap(home.store))

    app = hf.App("kin", home=open_shared, limits=hf.Limits(**limits))

    @app.workflow
    async def child() -> str:
        return await hf.signal("word", str)

    @app.workflow
    async def parent() -> str:
        return await child()

    return app, parent, child


async def test_a_child_that_ends_beside_a_stale_copy_of_its_parent_tells_the_owner() -> None:
    data = MemoryData()
    first, parent, child = kin(data, linger_seconds=0.01)
    second, _, _ = kin(data, linger_seconds=9.0)
    async with first.worker():
        handle = await parent.start(id="p")
        await eventually(lambda: first.telemetry.counts["suspended"] == 2)
        async with second.worker():
            second._heard("wf#parent#p")  # a late ring: it takes the parent, which the first still has in memory
            await eventually(lambda: second.telemetry.counts["claimed"])
            await asyncio.sleep(0.05)
            await (await only_child(first, child)).signal("word", "hello")
            assert await handle.result("60s") == "hello"


class SlowToTell:
    """A store on which a child's word to its parent takes long."""

    def __init__(self, store: Any) -> None:
        self._store = store

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def write(self, *writes: Write) -> Sequence[Item | None]:
        if isinstance(writes[0], Put) and b'"type":"child"' in writes[0].item.body:
            await asyncio.sleep(0.05)
        return await self._store.write(*writes)


async def test_a_child_that_ends_while_its_worker_shuts_down_tells_its_parent_all_the_same() -> None:
    data = MemoryData()
    first, parent, child = kin(data, SlowToTell, linger_seconds=0.01)
    async with first.worker():
        handle = await parent.start(id="p")
        await eventually(lambda: first.telemetry.counts["suspended"] == 2)
        await (await only_child(first, child)).signal("word", "hello")
        await eventually(lambda: first.telemetry.counts["ended"])
    second, parent, _ = kin(data)
    async with second.worker():
        assert await parent.handle(handle.id).result("60s") == "hello"


async def test_who_came_and_died_between_two_sweeps_is_missed_too() -> None:
    data = MemoryData()
    app, job, _ = shop(data, sweep_seconds=0.5, courtesy_ms=1, linger_seconds=0.0, near_seconds=0.0)
    async with app.worker():
        await job.start(1, id="j")
        async with asyncio.timeout(60):
            while (await job.handle("j").status()).status != "SUSPENDED":
                await asyncio.sleep(0.005)
            passer_by = open_memory_home(data=data)
            looks = app.telemetry.counts["claimed"]
            passer_by.doorbell.ring("wf#job#j")
            while app.telemetry.counts["claimed"] == looks:
                await asyncio.sleep(0.005)
            until = app.clock.now_ms() + 14_000
            taken = Update(partition="wf#job#j", when=UNOWNED, owner=passer_by.owner, lease_until=until, add_epoch=1)
            while True:  # the worker has looked, and lets go of it
                with suppress(Refused):
                    await passer_by.store.write(taken)
                    break
                await asyncio.sleep(0.001)
            await passer_by.doorbell.close()
            while (await passer_by.store.get("wf#job#j")).owner == passer_by.owner:
                await asyncio.sleep(0.005)
