"""Every scenario of actors, with a crash, an outage, a lost answer or a zombie at each of its writes."""

from __future__ import annotations

import asyncio

import pytest
from tests.crash.stage import Stage
from tests.scenarios import ACTOR_SCENARIOS, scenario

import holdfast as hf
from holdfast.testing import (
    FaultsAt,
    Ledger,
    Scenario,
    World,
    crash_twice,
    lag_at_every_write,
    run_scenario,
    run_swarm,
    run_virtual,
)
from holdfast.testing.faults import FailRead, LoseRing, ReadFault, RingFault
from holdfast.testing.world import User, swift

TWICE = ["requests", "timers", *(pytest.param(each, marks=pytest.mark.torture) for each in ("recreated", "optimistic"))]
FENCED_AT_LEAST = 200
READS_AT_LEAST = 200
SWARM_SEEDS = 60


@pytest.mark.parametrize("each", ACTOR_SCENARIOS, ids=str)
def test_a_crash_at_any_write_changes_nothing(each: Scenario, stage: Stage) -> None:
    stage.crash(each)


def test_a_process_that_hears_from_its_store_too_late_changes_nothing_and_is_fenced(sampled_stage: Stage) -> None:
    reports = [lag_at_every_write(each) for each in sampled_stage.some(ACTOR_SCENARIOS)]
    fenced = sum(report.events["fenced"] for report in reports)
    print(f"{sum(report.points for report in reports)} processes lagged behind, {fenced} were fenced")
    assert fenced >= sampled_stage.at_least(FENCED_AT_LEAST)


@pytest.mark.parametrize("name", TWICE)
def test_a_second_crash_during_the_recovery_changes_nothing(name: str, patient_stage: Stage) -> None:
    assert crash_twice(patient_stage.on(scenario(name))).points > 0


def test_a_zombie_at_any_write_changes_nothing_and_is_fenced(sampled_stage: Stage) -> None:
    fenced = points = 0
    for each in sampled_stage.some(ACTOR_SCENARIOS):
        report = sampled_stage.pause(each)
        points += report.points
        fenced += report.events["fenced"]
    print(f"{points} zombies came back, {fenced} were fenced")
    assert fenced >= sampled_stage.at_least(FENCED_AT_LEAST), "zombies that never tried to write prove nothing"


def test_a_swarm_comes_to_the_end_it_comes_to_undisturbed() -> None:
    report = run_swarm(ACTOR_SCENARIOS, range(SWARM_SEEDS))
    assert report.events["fenced"] >= SWARM_SEEDS / 2, "processes that never came late prove nothing"


EXPECTED = {
    "requests": {"Account#a": '{"entries":[1,10,100,1000]}'},
    "durable replies": {"Urn#u": '{"drawn":4}'},
    "chain of calls": {
        "Courier#c": '{"parcels":["book","invoice of book","lamp","invoice of lamp"]}',
        "Shop#shop": '{"orders":["book 21","lamp 43"]}',
        "Stock#s": '{"taken":{"book":1,"lamp":1}}',
    },
    "calls from outside": {"Account#a": '{"entries":[1,10,100,100,1000]}', "Bank#b": '{"booked":1}'},
    "recreated": {"Visit#v": "nothing"},
    "optimistic": {"Counter#c": '{"count":1111}', "Total#t": '{"cents":1111}'},
    "outdated": {"Purse#p": '{"cents":303,"currency":"EUR"}'},
    "sent by a client": {"Log#l": '{"lines":[0,1,2,3]}'},
    "sent by a method": {
        "Cook#cake": '{"dishes":["cake 0","cake 1","cake 2"]}',
        "Cook#chef": '{"dishes":["soup 0","cake 0","soup 1","cake 1","soup 2","cake 2"]}',
        "Cook#soup": '{"dishes":["soup 0","soup 1","soup 2"]}',
        "Guest#g": '{"ordered":3,"paid":[0,1,2]}',
    },
    "delayed": {"Box#b": '{"letters":["after 20 s","after 40 s","at once"]}', "Writer#w": '{"written":1}'},
    "timers": {"Alarm#a": '{"rung":["once","other"]}'},
    "periodic": {"Clock#c": '{"ticks":3}', "Display#d": '{"shown":[1,2,3]}'},
    "parked": {"Till#t": '{"cents":[1,10,5]}'},
    "in another order": {"Shop#s": '{"sold":1}', "Till#t": '{"paid":{"ink":1,"pen":2}}'},
    "redriven long after": {"Bank#b": '{"cents":3}', "Shop#s": '{"sold":[1,2]}', "Till#t": '{"paid":2}'},
    "halted": {"Ledgerbook#l": '{"pages":[1,2,3]}'},
    "from a workflow": {"Account#a": '{"entries":[1,10,100]}'},
    "starts a workflow": {"Desk#d": '{"orders":[1,2],"done":[1,2]}'},
}
"""What each scenario comes to: that all runs of one are alike does not say that they are right."""


@pytest.mark.parametrize("each", ACTOR_SCENARIOS, ids=str)
def test_every_effect_happens_exactly_once(each: Scenario) -> None:
    actors = run_scenario(each).observation.actors
    states = {partition.removeprefix("actor#"): told.removesuffix(", parked []") for partition, told in actors.items()}
    assert states == EXPECTED[each.name]


class OneReadFails(FaultsAt):
    """The read of this number is not answered."""

    def __init__(self, number: int) -> None:
        super().__init__()
        self.reads = 0
        self._number = number

    def on_read(self) -> ReadFault | None:
        self.reads += 1
        return FailRead() if self.reads == self._number else None


def test_a_read_that_fails_anywhere_changes_nothing() -> None:
    points = 0
    for each in ACTOR_SCENARIOS:
        plan = OneReadFails(0)
        expected = run_scenario(each, (plan,)).observation
        for number in range(1, plan.reads + 1):
            run = run_scenario(each, (OneReadFails(number),))
            wrong = [*run.violations, *expected.differences(run.observation, each.histories)]
            assert not wrong, f"{each}: read {number}"
            points += run.faults.counts["FailRead"]
    print(f"{points} reads failed")
    assert points >= READS_AT_LEAST


class Unheard(FaultsAt):
    """Its rings are lost."""

    def on_ring(self) -> RingFault | None:
        return LoseRing()


def counting(app: hf.App, ledger: Ledger) -> User:
    class Count(hf.Actor, app=app):
        number: int = 0

        async def add(self) -> int:
            self.number += 1
            return self.number

        async def tell(self) -> int:
            return self.number

    async def user() -> type[Count]:
        return Count

    return user


def test_a_process_that_was_stopped_answers_with_nothing_that_is_past() -> None:
    """Hints of what happened meanwhile are lost or late: a call that changes nothing must not rest on them."""

    async def main() -> list[int]:
        world = World(counting, limits=swift(hf.Limits(near_seconds=60)))
        stopped, other = await world.boot(), await world.boot(Unheard())
        mine, theirs = await stopped.call(stopped.user), await other.call(other.user)

        async def tell_later() -> int:
            await asyncio.sleep(1)
            return await mine.at("c").tell()

        heard = [await stopped.call(mine.at("c").add)]
        later = asyncio.create_task(stopped.call(tell_later))
        await asyncio.sleep(0.5)
        stopped.pause()
        heard.append(await other.call(theirs.at("c").add))
        stopped.resume()
        heard.append(await later)
        await world.close()
        return heard

    assert run_virtual(main) == [1, 2, 2]
