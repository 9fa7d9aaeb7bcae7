"""Documents and streams against models that are lists, written by processes that die, sleep and wake up as zombies.

Hypothesis draws how wrong their clocks are and what happens to them and to their stores. Whatever it is: what was
acknowledged is there once, what was not is there once or never, and no version is ever seen with two values.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from random import Random
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.coordination.stream.accounts import Deposited
from tests.patterns.conftest import Machines
from tests.patterns.test_lease_model import OFFSETS, RATES

import holdfast as hf
from holdfast.testing import FaultCounts, ProcessDied, RandomFaults
from holdfast.testing.faults import CrashAfter, Delay, FailBefore, LoseAnswer, PauseAfter, PauseBefore

SLOW = settings(max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
SEEN = FaultCounts()
ROUNDS = 5
MOST_DRAWS = 5
"""How often the tests are played again until every fault has happened a few times: they are drawn."""


class Books:
    """What each writer was told, by mark; a mark is one thing to write."""

    def __init__(self):
        self.tried = set()
        self.told = {}

    def compare(self, written):
        """``written``: what is there in the end."""
        assert len(written) == len(set(written)), f"written twice: {written}"
        assert set(self.told) <= set(written), f"lost: {set(self.told) - set(written)}"
        assert set(written) <= self.tried, f"written by nobody: {set(written) - self.tried}"


async def compete(
    machines: Machines, seed: int, offsets: list[int], write: Callable[[hf.App, str], Awaitable[Any]], books: Books
) -> None:
    """Let processes write side by side, each a few marks, some of which sleep meanwhile and then go on."""
    random = Random(seed)
    plans = [RandomFaults(Random(f"{seed}/{number}"), RATES) for number in range(len(offsets))]
    processes = [await machines.boot(plan, offset_ms=offset) for plan, offset in zip(plans, offsets, strict=True)]

    async def work(number: int) -> None:
        for turn in range(ROUNDS):
            mark = f"{number}.{turn}"
            books.tried.add(mark)
            with contextlib.suppress(hf.StoreError, hf.Conflict):
                books.told[mark] = await write(processes[number].app, mark)
            await asyncio.sleep(random.random() * 10)

    async def wake_up() -> None:
        while True:
            await asyncio.sleep(20.0)
            for process in processes:
                process.resume()

    waking = asyncio.ensure_future(wake_up())
    outcomes = await asyncio.gather(
        *(process.call(lambda n=number: work(n)) for number, process in enumerate(processes)), return_exceptions=True
    )
    waking.cancel()
    for outcome in outcomes:
        assert outcome is None or isinstance(outcome, ProcessDied), outcome
    await asyncio.sleep(60)  # what was still on its way arrives
    SEEN.add(machines.world.counts)


@SLOW
@given(st.integers(0, 2**32), OFFSETS, st.sampled_from([None, "5m"]))
def test_a_document_has_one_history(simulate, seed, offsets, ttl):
    async def story(machines):
        books, history = Books(), {}

        def note(found):
            assert history.setdefault(found.version, found.value) == found.value, f"two values of {found.version}"

        async def write(app, mark):
            found = (
                await app.documents(list[str], name="logs")
                .at("log")
                .update(lambda marks: [*marks, mark], default=[], ttl=ttl)
            )
            note(found)
            assert found.value[-1] == mark
            return found.version

        await compete(machines, seed, offsets, write, books)
        last = await machines.boot()
        found = await last.call(last.app.documents(list[str], name="logs").at("log").find)
        if found is not None:
            note(found)
        # Where it may expire by a wrong clock, it may have begun anew: each life of it is a list.
        assert len(set(books.told.values())) == len(books.told), "two updates were told the same version"
        if ttl is None:
            books.compare([] if found is None else found.value)
            assert all(found.value[version - 1] == mark for mark, version in books.told.items())

    simulate(story, seed=seed)


@SLOW
@given(st.integers(0, 2**32), OFFSETS, st.booleans())
def test_a_stream_has_one_history(simulate, seed, offsets, named):
    async def story(machines):
        books = Books()

        async def write(app, mark):
            event = Deposited(int(mark.replace(".", "")))
            (recorded,) = await app.streams(Deposited).at("a").append(event, id=mark if named else None)
            return recorded.version

        await compete(machines, seed, offsets, write, books)
        last = await machines.boot()

        async def read():
            return [each async for each in last.app.streams(Deposited).at("a").read()]

        events = await last.call(read)
        assert [each.version for each in events] == list(range(1, len(events) + 1))
        marks = [f"{each.event.cents // 10}.{each.event.cents % 10}" for each in events]
        books.compare(marks)
        assert all(marks[version - 1] == mark for mark, version in books.told.items())

    simulate(story, seed=seed)


@pytest.mark.slow
def test_the_faults_did_happen(simulate):
    """Runs after the tests above, in the same process; alone it draws its own."""
    wanted = (FailBefore, LoseAnswer, Delay, CrashAfter, PauseBefore, PauseAfter)
    for _ in range(MOST_DRAWS):
        if all(SEEN.counts[fault.__name__] >= 3 for fault in wanted):
            break
        test_a_document_has_one_history(simulate)
        test_a_stream_has_one_history(simulate)
    SEEN.require(3, *wanted)
