"""Leader election: one works, the others wait, and whoever is deposed stops and campaigns again."""

from __future__ import annotations

import asyncio

import pytest

import holdfast as hf
from holdfast.testing import FaultsAt, ProcessDied
from holdfast.testing.faults import FailBefore


async def lead_for_ever(held, terms, name):
    terms.append((name, held.fence))
    try:
        await asyncio.sleep(1e9)
    finally:
        terms.append((name, -held.fence))


@pytest.mark.not_on_dynamodb("nobody can tell there that a process has died: its lease has to run out")
def test_another_takes_over_when_the_leader_dies(simulate):
    async def story(machines):
        terms = []
        processes = [await machines.boot() for _ in range(3)]
        running = [
            asyncio.ensure_future(
                process.call(lambda p=process: p.app.leader("x").run(lambda held: lead_for_ever(held, terms, p.name)))
            )
            for process in processes
        ]
        await asyncio.sleep(60.0)
        assert len(terms) == 1
        leader = next(process for process in processes if process.name == terms[0][0])
        leader.crash()
        with pytest.raises(ProcessDied):
            await running[processes.index(leader)]
        await asyncio.sleep(30.0)
        assert [fence for _, fence in terms] == [1, 2]
        assert terms[0][0] != terms[1][0]
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)
        await asyncio.sleep(1.0)

    simulate(story)


def test_a_leader_that_is_cut_off_stops_and_campaigns_again(simulate):
    async def story(machines):
        terms = []
        cut_off = await machines.boot(FaultsAt({number: FailBefore() for number in range(3, 30)}))
        run = asyncio.ensure_future(
            cut_off.call(
                lambda: cut_off.app.leader("x", ttl="10s").run(lambda held: lead_for_ever(held, terms, "first"))
            )
        )
        await asyncio.sleep(300.0)
        assert [fence for _, fence in terms] == [1, -1, 2]
        run.cancel()
        await asyncio.gather(run, return_exceptions=True)
        await asyncio.sleep(1.0)
        assert terms[-1] == ("first", -2), "who stops, stops leading"

    simulate(story)


async def test_its_result_and_its_errors_are_those_of_the_work(app):
    async def work(held: hf.HeldLease) -> int:
        return held.fence

    async def fail(held: hf.HeldLease) -> int:
        raise ZeroDivisionError

    async with app:
        assert await app.leader("x").run(work) == 1
        with pytest.raises(ZeroDivisionError):
            await app.leader("x").run(fail)
        assert await app.leader("x").run(work) == 3, "both have let go of it"


def test_bad_input_is_refused_where_it_is_given():
    for name, ttl in (("", "10s"), ("x", 0), ("x", -1), ("x", "never")):
        with pytest.raises(hf.InvalidInput):
            hf.App("shop").leader(name, ttl=ttl)
