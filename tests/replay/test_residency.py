"""Residency: what waits leaves memory when there is no room, and comes back by replay, with nothing done twice."""

from __future__ import annotations

import asyncio
import gc
import subprocess
import sys
from collections import Counter

import pytest

import holdfast as hf
from holdfast.backends.memory import MemoryData, open_memory_home
from holdfast.errors import StoreUnavailable
from holdfast.ports import Home
from holdfast.replay.activation import Activation

TIGHT = hf.Limits(resident=1, linger_seconds=0.0, near_seconds=0.0)


@pytest.fixture
def data():
    return MemoryData()


@pytest.fixture
def make(data):
    """Make an app on the shared data."""

    def make(limits=TIGHT, wrap=lambda store: store):
        async def open_shared() -> Home:
            home = open_memory_home(data=data)
            return Home(home.url, home.owner, wrap(home.store), home.doorbell)

        return hf.App("shop", home=open_shared, limits=limits)

    return make


@pytest.fixture
def ran():
    return Counter()


def counting(app, ran):
    @app.step(name="count")
    async def count(what: str) -> str:
        ran[what] += 1
        return what

    return count


async def until(check):
    async with asyncio.timeout(60):
        while not check():
            await asyncio.sleep(0.001)


def resident(app):
    return [partition for partition, entity in app.employed.host.entities.items() if entity.work is not None]


async def test_the_least_recently_used_leaves_first(make, ran):
    app = make(hf.Limits(resident=3, linger_seconds=0.0, near_seconds=0.0))
    evicted = []
    app.telemetry.subscribe(lambda event, fields: evicted.append(fields["partition"]) if event == "evicted" else None)

    @app.workflow
    async def job() -> None:
        while True:
            await hf.signal("go")

    async with app.worker():
        handles = [await job.start(id=f"j-{n}") for n in range(3)]
        await until(lambda: app.telemetry.counts["suspended"] == 3)
        await handles[0].signal("go")
        await until(lambda: app.telemetry.counts["suspended"] == 4)
        assert evicted == []
        await job.start(id="j-3")
        await until(lambda: evicted)
        assert evicted == ["wf#job#j-1"]
        assert sorted(resident(app)) == ["wf#job#j-0", "wf#job#j-2", "wf#job#j-3"]


async def test_a_hundred_executions_with_room_for_one(make, ran):
    app = make()
    count = counting(app, ran)

    @app.workflow
    async def job(n: int) -> str:
        first = await count(f"{n} first")
        await hf.sleep("2ms")
        second = await count(f"{n} second")
        return first + await hf.signal("go", str) + second

    async with app.worker():
        handles = [await job.start(n, id=f"j-{n}") for n in range(100)]
        await asyncio.gather(*[handle.signal("go", "!") for handle in handles])
        assert await asyncio.gather(*handles) == [f"{n} first!{n} second" for n in range(100)]
        assert len(resident(app)) <= 1
    assert set(ran.values()) == {1}
    assert len(ran) == 200
    assert app.telemetry.counts["evicted"] > 0


async def test_eviction_runs_no_durable_clean_up(make, ran):
    """The steps of a ``finally`` block belong to the end of the execution, not to its absence from memory."""
    app = make()
    count = counting(app, ran)

    @app.step(name="blocking")
    def blocking(what: str) -> None:
        ran[what] += 1

    @app.workflow
    async def job(n: int) -> str:
        await count(f"{n} begin")
        try:
            async with hf.saga(), asyncio.timeout(3600):
                return await hf.signal("go", str)
        except BaseException:
            await count(f"{n} except")
            raise
        finally:
            await count(f"{n} finally")
            await blocking(f"{n} blocking")
            await hf.sleep("1ms")
            await asyncio.gather(count(f"{n} gathered"), blocking(f"{n} too"))

    async with app.worker():
        handles = [await job.start(n, id=f"j-{n}") for n in range(3)]
        await until(lambda: app.telemetry.counts["evicted"] >= 2)
        assert set(ran) == {"0 begin", "1 begin", "2 begin"}
        for handle in handles:
            await handle.signal("go", "gone")
        assert await asyncio.gather(*handles) == ["gone"] * 3
    assert set(ran.values()) == {1}
    assert len(ran) == 3 * 5


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
async def test_a_body_that_catches_everything_leaves_memory_too(make, ran):
    app = make()
    count = counting(app, ran)

    @app.workflow
    async def stubborn() -> None:
        while True:
            try:
                await count("asked")
                await hf.signal("go")
            except:  # noqa: E722, S110 - as users write it
                pass

    @app.workflow
    async def other() -> str:
        await hf.sleep("1ms")
        return "fine"

    async with app.worker():
        handle = await stubborn.start(id="s")
        await until(lambda: app.telemetry.counts["suspended"])
        assert await other() == "fine"
        assert await other() == "fine"
        await handle.terminate()
    assert ran["asked"] == 1


STUBBORN = """
import holdfast as hf

app = hf.App("stubborn", home="memory://")

@app.step
async def ask() -> None: ...

@app.workflow
async def stubborn() -> None:
    while True:
        try:
            await ask()
            await hf.signal("go")
        except:
            pass

async def main() -> None:
    handle = await stubborn.start(id="s")
    await handle.terminate()

app.run(main())
"""


def test_a_body_that_catches_everything_lets_its_process_end():
    subprocess.run([sys.executable, "-c", STUBBORN], check=True, timeout=60)


async def test_what_arrives_while_it_leaves_is_not_lost(make, ran):
    app = make(hf.Limits(resident=0, linger_seconds=0.0, near_seconds=0.0))
    count = counting(app, ran)

    @app.workflow
    async def child(n: int) -> str:
        return await count(f"{n}")

    @app.workflow
    async def parent() -> list[str]:
        found = await asyncio.gather(*[child(n) for n in range(5)])
        for n in range(5, 10):
            found.append(await child(n))
        return list(found)

    async with app.worker():
        async with asyncio.timeout(60):
            assert await parent() == [str(n) for n in range(10)]
    assert set(ran.values()) == {1}


async def test_signals_while_it_comes_and_goes_are_all_taken_once(make):
    app = make(hf.Limits(resident=0, linger_seconds=0.0, near_seconds=0.0))

    @app.workflow
    async def job(count: int) -> list[int]:
        return [await hf.signal("n", int) for _ in range(count)]

    async with app.worker():
        handle = await job.start(50, id="j")
        for n in range(50):
            await handle.signal("n", n)
            if n % 3 == 0:
                await asyncio.sleep(0)
        assert await handle.result("60s") == list(range(50))


async def test_one_that_is_evicted_while_it_waits_for_a_retry_goes_on_counting(make, ran):
    app = make()
    attempts = []

    @app.step(retry=hf.Retry(max_attempts=3, initial="5ms", jitter=hf.Jitter.NONE))
    async def flaky() -> int:
        info = hf.current()
        assert isinstance(info, hf.StepInfo)
        attempts.append(info.attempt)
        if info.attempt < 3:
            raise ConnectionError("again")
        return info.attempt

    @app.workflow
    async def job() -> int:
        return await flaky()

    async with app.worker():
        handles = [await job.start(id=f"j-{n}") for n in range(3)]
        assert await asyncio.gather(*handles) == [3, 3, 3]
    assert sorted(attempts) == [1, 1, 1, 2, 2, 2, 3, 3, 3]


async def test_a_store_that_fails_while_an_effect_looks_something_up_delays_and_loses_nothing(make):
    """An effect that breaks off with an error of ours must not leave its body waiting for ever."""
    broken = [0]

    class Flaky:
        def __init__(self, store):
            self._store = store

        def __getattr__(self, name):
            return getattr(self._store, name)

        async def get(self, partition, sort="@"):
            if broken[0] and partition == "wf#other#o":
                broken[0] -= 1
                raise StoreUnavailable("not now")
            return await self._store.get(partition, sort)

    app = make(hf.Limits(retry_turn_seconds=0.01), Flaky)

    @app.workflow
    async def other() -> str:
        return await hf.signal("go", str)

    @app.workflow
    async def job() -> str:
        return await other.handle("o")

    async with app.worker():
        handle = await other.start(id="o")
        await asyncio.sleep(0.005)
        broken[0] = 2
        waiting = await job.start(id="j")
        await until(lambda: not broken[0])
        await handle.signal("go", "gone")
        assert await waiting.result("60s") == "gone"
    assert app.telemetry.counts["turn_failed"] >= 1


@pytest.mark.parametrize("fails", [False, True])
async def test_what_has_ended_leaves_nothing_for_the_collector(make, ran, fails):
    app = make()
    count = counting(app, ran)

    @app.workflow
    async def job() -> None:
        await count("once")
        if fails:
            raise ValueError("on purpose")

    async with app.worker():
        gc.collect()
        gc.disable()
        try:
            before = activations()
            handle = await job.start()
            await until(lambda: app.telemetry.counts["ended"] == 1)
            assert (await handle.status()).status == ("FAILED" if fails else "COMPLETED")
            assert activations() == before
        finally:
            gc.enable()


def activations():
    return sum(isinstance(each, Activation) for each in gc.get_objects())


async def test_a_turn_that_fails_is_logged_by_type_and_frames_and_made_again(make, caplog):
    """What an error says may quote what was worked on."""
    app = make(hf.Limits(retry_turn_seconds=0.01))

    @app.workflow
    async def job() -> str:
        return await hf.signal("go", str)

    card = "-".join(["4111"] * 4)
    async with app.worker():
        handle = await job.start(id="j")
        host = app.employed.host
        await until(lambda: host.entities)
        (entity,) = host.entities.values()
        try:
            raise LookupError(card)
        except LookupError as error:
            host.failed(entity, error)
        await handle.signal("go", "gone")
        assert await handle.result("60s") == "gone"
    assert "turn_failed" in caplog.text and "LookupError at" in caplog.text
    assert card not in caplog.text
