"""The outbox against a model: what was committed is applied once for each consumer, and what was not never is (G5, G6).

Hypothesis draws what is published, by whom and how it ends, and what happens to the processes and their stores. The
model is a list: the events of every publication that committed.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import dataclass
from random import Random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

import holdfast as hf
from holdfast.testing import FaultCounts, Histories, RandomFaults, Rates, Scenario, World, run_scenario, run_virtual
from holdfast.testing.faults import (
    CrashAfter,
    CrashBefore,
    Delay,
    FailBefore,
    FailRead,
    LoseAnswer,
    LoseRing,
    PauseAfter,
    PauseBefore,
)

RATES = Rates(
    fail_before=0.03,
    lose_answer=0.05,
    delay=0.05,
    crash=0.03,
    pause=0.0,
    fail_read=0.03,
    delay_read=0.05,
    lose_ring=0.2,
    longest_delay_seconds=4.0,
)
SEEN = FaultCounts()


@dataclass(frozen=True)
class ByClient:
    """Published under an id, by somebody who says it twice if he is not answered; and once more if ``again``."""

    again: bool


@dataclass(frozen=True)
class ByActor:
    """Several, in one call of an actor, which then fails or does not."""

    shop: int
    count: int
    fails: bool


@dataclass(frozen=True)
class WithDocument:
    """With a document, in one transaction, which is given up or is not."""

    given_up: bool


Publication = ByClient | ByActor | WithDocument

SCRIPTS = st.lists(
    st.builds(ByClient, st.booleans())
    | st.builds(ByActor, st.integers(0, 1), st.integers(1, 4), st.booleans())
    | st.builds(WithDocument, st.booleans()),
    min_size=1,
    max_size=8,
)


@dataclass
class Placed:
    label: str


class Refused(Exception):
    pass


def committed(script):
    """The model: the labels of all events that must be applied, by the group whose order counts."""
    groups = {}
    for number, each in enumerate(script):
        match each:
            case ByClient():
                groups[f"client {number}"] = [f"{number}"]
            case ByActor(shop, count, fails) if not fails:
                groups.setdefault(f"shop {shop}", []).extend(f"{number}.{part}" for part in range(count))
            case WithDocument(given_up) if not given_up:
                groups[f"document {number}"] = [f"{number}"]
    return groups


def scenario_of(script):
    groups = committed(script)
    total = sum(map(len, groups.values()))

    def build(app, ledger):
        class Book(hf.Actor, app=app):
            labels: list[str] = hf.field(default_factory=list)

            async def add(self, label: str) -> None:
                self.labels.append(label)

            @hf.read
            async def all(self) -> list[str]:
                return self.labels

        class Shop(hf.Actor, app=app, raises=(Refused,)):
            async def order(self, number: int, count: int, fails: bool) -> None:
                for part in range(count):
                    await app.publish(Placed(f"{number}.{part}"))
                if fails:
                    raise Refused(str(number))

        @app.consumer(Placed)
        async def bill(event: Placed) -> None:
            await hf.send(Book.at("bills").add, event.label)

        @app.consumer(Placed)
        async def ship(event: Placed) -> None:
            await hf.send(Book.at("parcels").add, event.label)

        notes = app.documents(int, name="notes")

        async def publish(number, each):
            match each:
                case ByClient(again):
                    for _ in range(1 + again):
                        await app.publish(Placed(str(number)), id=f"client {number}")
                case ByActor(shop, count, fails):
                    with suppress(Refused):
                        await Shop.at(f"{shop}", request_id=f"order {number}").order(number, count, fails)
                case WithDocument(given_up):
                    with suppress(Refused):
                        async with app.atomic() as tx:
                            if await tx.find(notes.at(f"{number}")) is None:
                                tx.put(notes.at(f"{number}"), number)
                                tx.publish(Placed(str(number)))
                            if given_up:
                                raise Refused(str(number))

        async def user():
            for number, each in enumerate(script):
                await until_answered(publish, number, each)
            books = []
            for name in ("bills", "parcels"):
                while len(await until_answered(Book.at(name).all)) < total:
                    await asyncio.sleep(1)
            await asyncio.sleep(120)  # what comes too much comes late
            for name in ("bills", "parcels"):
                labels = await until_answered(Book.at(name).all)
                books.append({group: [each for each in labels if each in wanted] for group, wanted in groups.items()})
                assert len(labels) == total, (labels, groups)
            return books

        return user

    return Scenario("the outbox and its model", build, histories=Histories.FREE, effects_depend_on_time=True)


async def until_answered(ask, *args):
    while True:
        try:
            return await ask(*args)
        except hf.StoreError:
            await asyncio.sleep(1)


@pytest.mark.usefixtures("errors_expected")
@settings(max_examples=100, suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture])
@given(SCRIPTS, st.integers(0, 2**32))
def test_what_was_committed_is_applied_once_in_order_and_nothing_else(script, seed):
    plans = [RandomFaults(Random(f"{seed}/{number}"), RATES) for number in range(3)]
    run = run_scenario(scenario_of(script), plans, seed=seed)
    SEEN.add(run.faults)
    groups = committed(script)
    assert run.violations == []
    assert run.observation.result == repr([groups, groups])


@pytest.mark.usefixtures("errors_expected")
def test_the_faults_did_happen():
    """Runs after the test above, in the same process; alone it draws its own."""
    if not SEEN.counts:
        test_what_was_committed_is_applied_once_in_order_and_nothing_else()
    SEEN.require(3, FailBefore, LoseAnswer, Delay, CrashBefore, CrashAfter, FailRead, LoseRing)


# ── Side by side, with zombies and wrong clocks ─────────────────────────────────────────────────────────────────────

ASIDE = FaultCounts()
ZOMBIES = replace(RATES, crash=0.0, pause=0.03)
OFFSETS = st.lists(st.sampled_from([-600_000, -1500, 0, 1500, 600_000]), min_size=2, max_size=3)
SLEEP_SECONDS = 45.0


@pytest.mark.usefixtures("errors_expected")
@settings(
    max_examples=12, suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture], deadline=None
)
@given(SCRIPTS, st.integers(0, 2**32), OFFSETS)
def test_workers_that_wake_up_late_and_have_wrong_clocks_change_nothing(new_database, script, seed, offsets):
    scenario, groups = scenario_of(script), committed(script)

    async def main():
        world = World(scenario.build, limits=scenario.limits, database=new_database())
        plans = [RandomFaults(Random(f"{seed}/{number}"), ZOMBIES) for number in range(len(offsets))]
        workers = [world.admit(plan, offset_ms=offset) for plan, offset in zip(plans, offsets, strict=True)]
        starting = [asyncio.create_task(worker.start()) for worker in workers]

        async def wake_up():
            while True:
                await asyncio.sleep(SLEEP_SECONDS)
                for worker in workers:
                    worker.resume()

        waking = asyncio.create_task(wake_up())
        client = await world.client()
        books = await client.call(client.user)
        for plan in plans:
            plan.rates = Rates()
        for worker in workers:
            worker.resume()
        await world.quiet()
        waking.cancel()
        await asyncio.gather(waking, *starting, return_exceptions=True)
        ASIDE.add(world.counts)
        violations = world.violations()
        await world.close()
        return books, violations

    assert run_virtual(main, seed=seed) == ([groups, groups], [])


@pytest.mark.usefixtures("errors_expected")
def test_the_zombies_did_wake_up(new_database):
    """Runs after the test above, in the same process; alone it draws its own."""
    if not ASIDE.counts:
        test_workers_that_wake_up_late_and_have_wrong_clocks_change_nothing(new_database)
    ASIDE.require(3, FailBefore, LoseAnswer, Delay, PauseBefore, PauseAfter, LoseRing)
