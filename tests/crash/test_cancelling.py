"""A request to stop at every moment of bodies of every shape, with crashes at every write: what was done is undone."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from random import Random

import pytest

import holdfast as hf
from holdfast.errors import InvalidState, Terminal
from holdfast.retry import Jitter, Retry
from holdfast.testing import Scenario
from holdfast.testing.crashes import CRASHES
from holdfast.testing.faults import FaultsAt
from holdfast.testing.ledger import Ledger
from holdfast.testing.simulation import Histories, Run, run_scenario
from holdfast.testing.world import User

LASTS_SECONDS = 18
MOMENTS = [half + 0.5 for half in range(LASTS_SECONDS)]
CRASHED_MOMENTS = 3
SEED = 11


class Goods:
    """Steps that take a second and can be undone, and bodies of many shapes that use them."""

    def __init__(self, app: hf.App, ledger: Ledger) -> None:
        self.ledger = ledger

        @app.step
        async def take(what: str, seconds: float = 1) -> str:
            await asyncio.sleep(seconds)
            return ledger.effect(what)

        @take.undo
        async def give_back(what: str) -> None:
            await asyncio.sleep(1)
            ledger.effect(f"not {what}")

        @app.step
        async def leave(what: str) -> None:
            await asyncio.sleep(1)
            ledger.effect(f"not {what}")

        @app.step(retry=Retry(max_attempts=2, initial="5s", jitter=Jitter.NONE))
        async def unsteady(what: str) -> str:
            ledger.notes[f"tried {what}"] = ledger.notes.get(f"tried {what}", 0) + 1
            if ledger.notes[f"tried {what}"] < 2:
                raise OSError("not now")
            return ledger.effect(what)

        @unsteady.undo
        async def undo_unsteady(what: str) -> None:
            ledger.effect(f"not {what}")

        @app.step
        async def fail() -> None:
            await asyncio.sleep(1)
            raise Terminal("no")

        @app.workflow
        async def child() -> None:
            async with hf.saga():
                await take("of the child")
                await hf.sleep(3)

        self.take, self.leave, self.unsteady, self.fail, self.child = take, leave, unsteady, fail, child

    async def plain(self) -> None:
        try:
            await self.take("a")
            await hf.sleep(3)
        except asyncio.CancelledError:
            await self.leave("a")
            raise

    async def saga(self) -> None:
        async with hf.saga():
            await self.take("a")
            await hf.sleep(2)
            await self.take("b")

    async def nested(self) -> None:
        async with hf.saga():
            await self.take("a")
            async with hf.saga():
                await self.take("b")
                await hf.sleep(1)
            with suppress(Terminal):
                async with hf.saga():
                    await self.take("c")
                    await self.fail()
            await self.take("d")

    async def gather(self) -> None:
        async def two(one: str, other: str) -> None:
            await self.take(one)
            await self.take(other, 3)

        async with hf.saga():
            await asyncio.gather(two("a", "b"), two("c", "d"), hf.sleep(2))
            await self.take("e")

    async def task_group(self) -> None:
        async def inner(what: str) -> None:
            async with hf.saga():
                await self.take(what)
                await hf.sleep(2)

        async with hf.saga(), asyncio.TaskGroup() as group:
            for what in "abc":
                group.create_task(inner(what))

    async def timeout(self) -> None:
        async with hf.saga():
            with suppress(TimeoutError):
                async with asyncio.timeout(4), hf.saga():
                    await self.take("a")
                    await self.take("b", 10)
            await self.take("c")

    async def parent(self) -> None:
        async with hf.saga():
            await self.take("a")
            await self.child()

    async def failing(self) -> None:
        async with hf.saga():
            await self.take("a")
            with suppress(Terminal):
                async with hf.saga():
                    await asyncio.gather(self.take("b"), self.take("c", 2), self.fail())
            await self.take("d")
            await self.fail()

    async def backing_off(self) -> None:
        async with hf.saga():
            await self.take("a")
            await self.unsteady("b")
            await hf.sleep(1)


SHAPES = ["plain", "saga", "nested", "gather", "task_group", "timeout", "parent", "failing", "backing_off"]


def scenario(shape: str, moment: float, *, paused: bool) -> Scenario:
    """A body of a shape that is asked to stop at a moment."""

    def build(app: hf.App, ledger: Ledger) -> User:
        goods = Goods(app, ledger)

        @app.workflow
        async def job() -> str:
            await getattr(goods, shape)()
            return "done"

        async def user() -> str:
            handle = await job.start(id="one")
            await asyncio.sleep(moment)
            with suppress(InvalidState):
                if paused:
                    await handle.pause()
                    await asyncio.sleep(3)
                await handle.cancel("enough")
            return await handle

        return user

    return Scenario(f"{shape} cancelled at {moment}", build, histories=Histories.FREE)


def kept_of(run: Run) -> list[str]:
    """What was done in a run and not undone."""
    effects = list(run.observation.accepted.values())
    return [each for each in effects if not each.startswith("not ") and f"not {each}" not in effects]


def wrong_with(run: Run) -> list[str]:
    """What must not have happened: an execution that did not return has kept something."""
    statuses = run.observation.statuses
    complaints = [*run.violations]
    allowed = {"of the child"} if "COMPLETED" in (statuses[each] for each in statuses if "#child#" in each) else set()
    if statuses["wf#job#one"] != "COMPLETED" and (kept := set(kept_of(run)) - allowed):
        complaints.append(f"it is {statuses['wf#job#one']} and keeps {sorted(kept)}")
    return complaints


@pytest.mark.parametrize("paused", [False, True], ids=["running", "paused"])
@pytest.mark.parametrize("shape", SHAPES)
def test_whenever_it_is_cancelled_it_stops_and_nothing_is_left(shape: str, paused: bool) -> None:
    found = []
    ended = []
    for moment in MOMENTS:
        run = run_scenario(scenario(shape, moment, paused=paused))
        found += [f"at {moment}: {each}" for each in wrong_with(run)]
        ended.append(run.observation.statuses["wf#job#one"])
    assert found == []
    assert ended.count("CANCELLED") >= 2
    stopped = "".join("c" if each == "CANCELLED" else "." for each in ended)
    assert "c" not in stopped.lstrip("c"), f"some request was accepted and had no effect: {ended}"


@pytest.mark.parametrize("shape", SHAPES)
def test_crashes_at_any_write_do_not_change_that(shape: str) -> None:
    moments = Random(f"{SEED}/{shape}").sample(MOMENTS[:9], CRASHED_MOMENTS)
    found, points = [], 0
    for moment in moments:
        each = scenario(shape, moment, paused=moment == moments[-1])
        for number in range(1, run_scenario(each).writes[0] + 1):
            for fault in CRASHES:
                run = run_scenario(each, (FaultsAt({number: fault}),))
                points += 1
                found += [f"{fault} {number}, cancelled at {moment}: {wrong}" for wrong in wrong_with(run)]
    print(f"{shape}: {points} crashes, {len(found)} wrong")
    assert points > 0
    assert found == []
