"""Limits of steps and methods, on each home: how many run, how often they begin, and what is written for it."""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from contextlib import nullcontext
from itertools import product

import pytest

import holdfast as hf
from holdfast.errors import DuplicateName, InvalidInput
from holdfast.flow.lending import Numbers
from holdfast.flow.permits import Wanted, lenders_of
from holdfast.testing import VirtualClock, run_virtual

FOREVER = "1h"


class Inside:
    """Who is inside, the most at once, and when each began."""

    def __init__(self) -> None:
        self.names: list[str] = []
        self.most = 0
        self.began: list[float] = []
        self.order: list[str] = []
        self._out = asyncio.Semaphore(0)

    async def stay(self, name: str) -> str:
        self.names.append(name)
        self.order.append(name)
        self.most = max(self.most, len(self.names))
        self.began.append(asyncio.get_running_loop().time())
        try:
            await self._out.acquire()
        finally:
            self.names.remove(name)
        return name

    def go(self, number: int = 1) -> None:
        for _ in range(number):
            self._out.release()


@pytest.fixture
def inside() -> Inside:
    return Inside()


def calling(app: hf.App, inside: Inside, **options) -> hf.Workflow[[str], str]:
    """A workflow of one step, which stays inside."""

    @app.step(**options)
    async def call(name: str) -> str:
        return await inside.stay(name)

    @app.workflow
    async def job(name: str) -> str:
        return await call(name)

    return job


async def test_no_more_run_than_there_are_permits(app, inside, eventually) -> None:
    job = calling(app, inside, limit=app.limit("api", permits=2))
    async with app.worker():
        handles = [await job.start(f"j{number}") for number in range(5)]
        await eventually(lambda: len(inside.names) == 2)
        inside.go(5)
        assert sorted(await asyncio.gather(*handles)) == [f"j{number}" for number in range(5)]
    assert inside.most == 2


async def test_two_processes_share_the_permits(world, inside, eventually) -> None:
    first, second = world.app(), world.app()
    jobs = [calling(each, inside, limit=each.limit("api", permits=3)) for each in (first, second)]
    async with first.worker(), second.worker():
        handles = [await jobs[number % 2].start(f"j{number}") for number in range(8)]
        await eventually(lambda: len(inside.names) == 3)
        for _ in range(8):
            inside.go()
            await asyncio.sleep(0.01)
        await asyncio.gather(*handles)
    assert inside.most == 3


async def test_each_key_has_permits_of_its_own(app, inside, eventually) -> None:
    limit = app.limit("api", permits=1)
    job = calling(app, inside, limit=limit.of(lambda name: name[0]))
    async with app.worker():
        handles = [await job.start(name) for name in ("a1", "a2", "b1", "b2")]
        await eventually(lambda: sorted(name[0] for name in inside.names) == ["a", "b"])
        inside.go(4)
        await asyncio.gather(*handles)
        assert [loan.permits for loan in (await limit.status("a")).loans] == [1]


async def test_a_step_in_a_thread_takes_a_permit_too(app, eventually) -> None:
    running, most, lock, go = 0, 0, threading.Lock(), threading.Event()

    @app.step(limit=app.limit("api", permits=2))
    def call(number: int) -> int:
        nonlocal running, most
        with lock:
            running += 1
            most = max(most, running)
        go.wait()
        with lock:
            running -= 1
        return number

    @app.workflow
    async def job(number: int) -> int:
        return await call(number)

    async with app.worker():
        handles = [await job.start(number) for number in range(5)]
        await eventually(lambda: running == 2)
        go.set()
        await asyncio.gather(*handles)
    assert most == 2


async def test_a_step_that_is_at_most_once_is_not_begun_before_it_has_a_permit(app, inside, eventually) -> None:
    limit = app.limit("api", permits=1)
    first, second = calling(app, inside, limit=limit, name="plain"), None

    @app.step(limit=limit, at_most_once=True)
    async def once(name: str) -> str:
        return await inside.stay(name)

    @app.workflow
    async def careful(name: str) -> str:
        return await once(name)

    async with app.worker():
        one = await first.start("one")
        await eventually(lambda: inside.names == ["one"])
        second = await careful.start("two")
        inside.go(2)
        assert await asyncio.gather(one, second) == ["one", "two"]
    assert inside.most == 1


async def test_a_method_of_an_actor_takes_a_permit(app, inside, eventually) -> None:
    limit = app.limit("api", permits=2)

    class Shop(hf.Actor, app=app):
        calls: int = 0

        @hf.method(limit=limit, timeout=None)
        async def call(self, name: str) -> int:
            await inside.stay(name)
            self.calls += 1
            return self.calls

    async with app.worker():
        calls = [asyncio.create_task(Shop.at(f"s{number}").call(f"c{number}")) for number in range(5)]
        await eventually(lambda: len(inside.names) == 2)
        inside.go(5)
        assert await asyncio.gather(*calls) == [1] * 5
    assert inside.most == 2


async def test_what_waits_can_be_cancelled(app, inside, eventually) -> None:
    limit = app.limit("api", permits=1)
    job = calling(app, inside, limit=limit)
    async with app.worker():
        first = await job.start("first")
        await eventually(lambda: inside.names == ["first"])
        second = await job.start("second")
        await second.cancel("not needed")
        with pytest.raises(hf.ExecutionCancelled):
            await second
        inside.go()
        assert await first == "first"
        third = await job.start("third")
        inside.go()
        assert await third == "third"
    assert inside.order == ["first", "third"]


async def test_a_permit_is_given_back_while_a_step_waits_for_its_next_attempt(app, inside, eventually) -> None:
    limit = app.limit("api", permits=1)
    failed = Counter[str]()

    @app.step(limit=limit, retry=hf.Retry(max_attempts=2, initial=FOREVER))
    async def fragile(name: str) -> str:
        failed[name] += 1
        raise RuntimeError("not now")

    @app.workflow
    async def failing(name: str) -> str:
        return await fragile(name)

    job = calling(app, inside, limit=limit)
    async with app.worker():
        await failing.start("x", id="x")
        await eventually(lambda: failed["x"] == 1)
        other = await job.start("y")
        inside.go()
        assert await other == "y"


async def test_a_change_is_heard_of_and_zero_permits_let_nothing_begin(app, inside, eventually) -> None:
    limit = app.limit("api", permits=1)
    job = calling(app, inside, limit=limit)
    async with app.worker():
        handles = [await job.start(f"j{number}") for number in range(6)]
        await eventually(lambda: len(inside.names) == 1)
        await limit.change(permits=4)
        await eventually(lambda: len(inside.names) == 4)
        await limit.change(permits=0)
        assert (await limit.status()).permits == 0
        inside.go(4)
        await eventually(lambda: not inside.names)
        await limit.reset()
        await eventually(lambda: len(inside.names) == 1)
        inside.go(2)
        await asyncio.gather(*handles)
    assert inside.most == 4


async def test_two_limits_of_one_step_hold_both(app, inside, eventually) -> None:
    wide, narrow = app.limit("wide", permits=5), app.limit("narrow", permits=2)
    ahead = calling(app, inside, limit=[wide, narrow], name="ahead")

    @app.step(limit=[narrow, wide])
    async def backward(name: str) -> str:
        return await inside.stay(name)

    @app.workflow
    async def other(name: str) -> str:
        return await backward(name)

    async with app.worker():
        handles = [await (ahead, other)[number % 2].start(f"j{number}") for number in range(8)]
        await eventually(lambda: len(inside.names) == 2)
        inside.go(8)
        await asyncio.gather(*handles)
    assert inside.most == 2


async def test_with_a_warm_loan_a_step_costs_no_write_more(memory_world) -> None:
    """Twenty jobs after the first one: as many writes with a limit as without."""

    async def writes_of(app: hf.App, **options) -> int:
        @app.step(**options)
        async def call(number: int) -> int:
            return number

        @app.workflow
        async def job(number: int) -> int:
            return await call(number) + await call(number)

        async with app.worker():
            await job(0)
            store, written = app.runtime().home.store, 0
            write = store.write

            async def counted(*writes):
                nonlocal written
                written += 1
                return await write(*writes)

            store.write = counted
            for number in range(20):
                await job(number)
            del store.write
            return written

    limited = memory_world.app("limited")
    assert await writes_of(memory_world.app("plain")) == await writes_of(limited, limit=limited.limit("api", permits=8))


# ── Rates ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_rate_holds_over_processes(memory_world) -> None:
    rate, began = hf.Rate(5, per="1s", burst=2), list[float]()

    async def main() -> None:
        apps = [memory_world.app("shop", clock=VirtualClock()) for _ in range(3)]
        jobs = []
        for app in apps:

            @app.step(limit=app.limit("api", rate=rate))
            async def call(number: int) -> int:
                began.append(asyncio.get_running_loop().time())
                return number

            @app.workflow
            async def job(number: int) -> int:
                return await call(number)

            jobs.append(job)
        async with apps[0].worker(), apps[1].worker(), apps[2].worker():
            handles = [await jobs[number % 3].start(number) for number in range(30)]
            await asyncio.gather(*handles)

    run_virtual(main)
    began.sort()
    assert len(began) == 30
    assert max(sum(start <= at < start + 1 for at in began) for start in began) <= 6
    assert began[-1] - began[0] < 2 * 30 / 5, "tokens are lost"


def test_a_weight_takes_as_many_tokens(memory_world) -> None:
    began = list[tuple[float, int]]()

    async def main() -> None:
        app = memory_world.app("shop", clock=VirtualClock())
        tokens = app.limit("tokens", rate=hf.Rate(6_000, per="1m", burst=500))

        @app.step(limit=tokens.of(weight=lambda prompt: max(1, len(prompt))))
        async def ask(prompt: str, model: str = "small") -> str:
            began.append((asyncio.get_running_loop().time(), len(prompt)))
            return model

        @app.workflow
        async def job(prompt: str) -> str:
            return await ask(prompt)

        async with app.worker():
            handles = [await job.start("x" * (100 + 80 * (number % 6))) for number in range(60)]
            await asyncio.gather(*handles)

    run_virtual(main)
    most = max(sum(weight for at, weight in began if start <= at < start + 60) for start, _ in began)
    assert 5_500 <= most <= 6_000 + 500 - 1


# ── What can be declared ────────────────────────────────────────────────────────────────────────────────────────────


def test_a_limit_that_limits_nothing_is_refused() -> None:
    app = hf.App("shop")
    with pytest.raises(InvalidInput, match="limits nothing"):
        app.limit("api")
    with pytest.raises(InvalidInput, match="from 0"):
        app.limit("api", permits=-1)
    with pytest.raises(InvalidInput, match="per 100 ms"):
        app.limit("api", rate=hf.Rate(1, per="10ms"))
    app.limit("api", permits=1)
    with pytest.raises(DuplicateName):
        app.limit("api", permits=2)


def test_a_use_that_does_not_fit_its_step_is_refused() -> None:
    app = hf.App("shop")
    limit, tokens = app.limit("api", rate=hf.Rate(1, per="1s")), app.limit("tokens", rate=hf.Rate(1, per="1s"))
    large = app.limit("large", rate=hf.Rate(60, per="1m", burst=5))

    async def call(order: str) -> None: ...

    for use, told in (
        (limit.of(lambda tenant: tenant), "no parameter"),
        (limit.of("tenant.id"), "no parameter"),
        (limit.of(3), "a function of its arguments"),
        (limit.of(weight=0), "a function of its arguments"),
        ([limit, limit], "one limit twice"),
        ([limit, tokens], "a burst larger than a call, 1 and 1"),
        ([limit, large.of(weight=5)], "a burst larger than a call, 1 and 5"),
        ("api", "what app.limit"),
        ([], "what app.limit"),
    ):
        with pytest.raises(InvalidInput, match=told):
            app.step(limit=use)(call)


RATES = (None, hf.Rate(1, per="1s"), hf.Rate(60, per="1m", burst=3))


@pytest.mark.parametrize("permits", [None, 1, 3])
def test_whatever_the_numbers_are_a_call_is_refused_at_once_or_begins(memory_world, permits: int | None) -> None:
    """Calls that are larger than the burst, and than the permits, too; and of two rates at the same moment."""

    async def main() -> None:
        app = memory_world.app("shop", clock=VirtualClock())

        def job_of(rates: tuple[hf.Rate | None, ...], number: int) -> hf.Workflow[[int], None]:
            names = [f"{number}-{place}" for place in range(len(rates))]
            limits = [app.limit(name, permits=permits, rate=rate) for name, rate in zip(names, rates, strict=True)]
            uses = [each.of(weight=lambda size: size) for each in limits]

            @app.step(name=f"call{number}", limit=uses)
            async def call(size: int) -> None: ...

            @app.workflow(name=f"job{number}")
            async def job(size: int) -> None:
                await call(size)

            return job

        async def use(rates: tuple[hf.Rate | None, ...], job: hf.Workflow[[int], None], size: int) -> None:
            is_refused = sum(rate is not None and size >= rate.burst for rate in rates) > 1
            with pytest.raises(hf.ExecutionFailed, match="burst larger than") if is_refused else nullcontext():
                await job(size)

        pairs = [(rate,) for rate in RATES] + [pair for pair in product(RATES, RATES) if pair != (RATES[1], RATES[1])]
        pairs = [pair for pair in pairs if permits is not None or None not in pair]
        jobs = [(pair, job_of(pair, number)) for number, pair in enumerate(pairs)]
        async with app.worker():
            async with asyncio.timeout(600):
                await asyncio.gather(*(use(*job, size) for job in jobs for size in (2, 7, 1, 3)))

    run_virtual(main)


async def test_a_key_that_is_none_fails_the_step(app) -> None:
    limit = app.limit("api", permits=1)

    @app.step(limit=limit.of("order.tenant"), retry=hf.Retry(max_attempts=1))
    async def call(order: dict[str, str]) -> None: ...

    @app.workflow
    async def job(order: dict[str, str]) -> None:
        await call(order)

    async with app.worker():
        with pytest.raises(hf.ExecutionFailed, match="text or a whole number"):
            await job({"customer": "ann"})
        await job({"tenant": "acme"})


async def test_a_worker_that_stops_gives_its_permits_back(world, inside) -> None:
    first, second = world.app(), world.app()
    for app in (first, second):
        job = calling(app, inside, limit=app.limit("api", permits=1))
        inside.go()
        async with app.worker():
            assert await job("x") == "x"
            limit = app.registry.limits["api"]
            assert [loan.permits for loan in (await limit.status()).loans] == [1]
    async with first:
        assert (await first.registry.limits["api"].status()).loans == ()
        assert not lenders_of(first.runtime())._pools


# ── Calls that have left memory ─────────────────────────────────────────────────────────────────────────────────────


def test_what_came_first_begins_first_whether_it_is_in_memory_or_not(memory_world) -> None:
    order = list[str]()

    async def main() -> None:
        app = memory_world.app("shop", clock=VirtualClock())

        @app.step(limit=app.limit("api", permits=1))
        async def call(name: str) -> None:
            order.append(name)
            await asyncio.sleep(2)

        @app.workflow
        async def job(name: str) -> None:
            await call(name)

        async with app.worker():
            handles = []
            for number in range(12):  # what came more than three seconds ago has left memory
                handles.append(await job.start(f"{number:02}"))
                await asyncio.sleep(1)
            await asyncio.gather(*handles)

    run_virtual(main)
    assert order == sorted(order)


@pytest.mark.parametrize("end", ["cancel", "terminate"])
def test_calls_that_ended_after_they_left_memory_keep_nobody_waiting(memory_world, inside, end: str) -> None:
    async def main() -> None:
        app = memory_world.app("shop", clock=VirtualClock())
        limit = app.limit("api", permits=1)
        job = calling(app, inside, limit=limit)
        loop = asyncio.get_running_loop()
        async with app.worker():
            await limit.change(permits=0)
            handles = [await job.start(f"j{number}") for number in range(31)]
            await asyncio.sleep(10)
            (pool,) = lenders_of(app.runtime())._pools.values()
            assert pool.waiting == 31
            for handle in handles[:-1]:
                await getattr(handle, end)("not needed")
            await asyncio.gather(*handles[:-1], return_exceptions=True)
            await asyncio.sleep(10)
            assert pool.waiting == 1 or end == "terminate"  # of which a worker does not always hear
            since = loop.time()
            await limit.reset()
            inside.go()
            await handles[-1]
            assert inside.began[0] - since < 2.1

    run_virtual(main)


def test_places_that_nobody_comes_for_are_passed_together(memory_world) -> None:
    """As of executions that other processes have ended, or run now."""

    async def main() -> None:
        app = memory_world.app("shop", clock=VirtualClock())
        app.limit("api", permits=1)
        loop = asyncio.get_running_loop()
        async with app.worker():
            lenders = lenders_of(app.runtime())
            wanted = [Wanted("l.shop.api", "", 1, Numbers(1))]
            holding = lenders.hold(wanted)
            await holding.take()
            holding.begin()
            gone = list[str]()
            for number in range(30):
                lenders.hold(wanted, ("gone", str(number))).park(lambda: gone.append("roused"))
            last = lenders.hold(wanted, ("here", "1"))
            taking, since = asyncio.create_task(last.take()), loop.time()
            holding.end()
            await taking
            assert loop.time() - since < 2.1
            assert len(gone) == 30
            last.end()

    run_virtual(main)
