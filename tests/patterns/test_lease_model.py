"""Leases against a model of a line: each fence has one owner, and whoever comes next gets a higher one.

Hypothesis draws what several simulated processes do, and what happens to them and to their stores; the resource that
the lease guards keeps the books.
"""

from __future__ import annotations

import asyncio
from random import Random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import holdfast as hf
from holdfast.testing import FaultCounts, ProcessDied, RandomFaults, Rates
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

SLOW = settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
RATES = Rates(
    fail_before=0.05,
    lose_answer=0.08,
    delay=0.1,
    crash=0.02,
    pause=0.04,
    fail_read=0.05,
    delay_read=0.1,
    lose_ring=0.2,
    longest_delay_seconds=8.0,
)
SEEN = FaultCounts()
OFFSETS = st.lists(st.sampled_from([-600_000, -1500, 0, 1500, 600_000]), min_size=2, max_size=4)


class Resource:
    """What is guarded, and what the model says of it."""

    def __init__(self):
        self.highest = 0
        self.owners = {}
        self.refused = 0
        self.wrong = []

    def write(self, permit, fence, who):
        if fence < self.highest:
            self.refused += 1
            return
        self.highest = fence
        if self.owners.setdefault((permit, fence), who) is not who:
            self.wrong.append(f"fence {fence} belongs to {self.owners[permit, fence]} and to {who}")


def contest(seed, offsets):
    """The story of some processes that want the same lease, with clocks that are off."""

    async def story(machines):
        resource, random = Resource(), Random(seed)
        plans = [RandomFaults(Random(f"{seed}/{number}"), RATES) for number in range(len(offsets))]
        processes = [await machines.boot(plan, offset_ms=offset) for plan, offset in zip(plans, offsets, strict=True)]
        ended = 0

        async def work(process):
            nonlocal ended
            for _ in range(4):
                try:
                    async with process.app.lease("x", ttl="5s") as held:
                        for _ in range(random.randrange(8)):
                            resource.write(0, held.fence, held)
                            await asyncio.sleep(random.random() * 2)
                        ended += 1
                except (hf.LeaseLost, hf.StoreError):
                    await asyncio.sleep(1.0)

        async def wake_up():
            while True:
                await asyncio.sleep(20.0)
                for process in processes:
                    process.resume()

        waking = asyncio.ensure_future(wake_up())
        outcomes = await asyncio.gather(
            *(process.call(lambda p=process: work(p)) for process in processes), return_exceptions=True
        )
        waking.cancel()
        for outcome in outcomes:
            assert outcome is None or isinstance(outcome, ProcessDied), outcome
        assert resource.wrong == []
        SEEN.add(machines.world.counts)

        # Whatever happened, the next one gets it, behind every fence that was ever handed out.
        last = await machines.boot()

        async def once():
            async with last.app.lease("x") as held:
                return held.fence

        fence = await last.call(once)
        assert fence > max((fence for _, fence in resource.owners), default=0)

    return story


@SLOW
@given(st.integers(0, 2**32), OFFSETS)
def test_no_fence_has_two_owners_and_none_comes_back(simulate, seed, offsets):
    simulate(contest(seed, offsets), seed=seed)


@pytest.mark.slow
def test_the_faults_did_happen(simulate):
    """Runs after the test above, in the same process; alone it draws its own."""
    if not SEEN.counts:
        test_no_fence_has_two_owners_and_none_comes_back(simulate)
    SEEN.require(3, FailBefore, LoseAnswer, Delay, CrashBefore, CrashAfter, PauseBefore, PauseAfter, FailRead, LoseRing)
