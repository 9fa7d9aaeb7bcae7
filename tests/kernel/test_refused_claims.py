"""A ring that comes while a claim is being refused is heard: what refused it may be over by then."""

from __future__ import annotations

import asyncio

import pytest

import holdfast as hf
from holdfast.kernel import ownership
from holdfast.testing import VirtualClock, run_virtual

SELDOM = hf.Limits(sweep_seconds=3600.0)


@pytest.fixture
def slow_refusals(monkeypatch):
    """Claims whose refusals arrive only once ``heard`` is set, and how many were refused."""
    heard, refused = asyncio.Event(), []
    claim_lease = ownership.claim_lease

    async def late(*args, **options):
        outcome = await claim_lease(*args, **options)
        if not isinstance(outcome, ownership.Claimed):
            refused.append(outcome)
            await heard.wait()
        return outcome

    monkeypatch.setattr(ownership, "claim_lease", late)
    return heard, refused


def test_a_workflow_that_is_resumed_while_its_claim_is_refused_goes_on(slow_refusals):
    heard, refused = slow_refusals

    async def main() -> None:
        app = hf.App("shop", home="memory://", limits=SELDOM)

        @app.workflow
        async def job() -> str:
            return "done"

        async with app:
            handle = await job.start(id="j")
            await handle.pause()
            async with app.worker():
                app.runtime().host.check("wf#job#j")
                while not refused:
                    await asyncio.sleep(0.01)
                await handle.resume()
                heard.set()
                async with asyncio.timeout(60):
                    assert await handle == "done"

    run_virtual(main)
    assert len(refused) == 1


@pytest.mark.parametrize("place", ["empty", "ended"])
def test_one_that_is_started_while_an_earlier_wake_up_claims_its_place_runs_once(monkeypatch, place):
    """The turn of that wake-up and a turn of the start would each take the lease from the other."""
    claiming, started, ran, told = asyncio.Event(), asyncio.Event(), [], []
    claim_lease = ownership.claim_lease

    async def late(*args, **options):
        if not claiming.is_set():
            claiming.set()
            await started.wait()
        return await claim_lease(*args, **options)

    async def main() -> None:
        app = hf.App("shop", home="memory://", clock=VirtualClock(), limits=SELDOM)
        app.telemetry.subscribe(lambda event, fields: told.append(event))

        @app.step
        async def work() -> None:
            ran.append("began")
            await asyncio.sleep(10)

        @app.workflow(retention="1s")
        async def job() -> str:
            await work()
            return "done"

        async with app.worker():
            if place == "ended":
                assert await (await job.start(id="j")) == "done"
                await asyncio.sleep(5)
                ran.clear()
            monkeypatch.setattr(ownership, "claim_lease", late)
            host = app.runtime().host
            host.check("wf#job#j")
            await claiming.wait()
            handle = await job.start(id="j")
            started.set()
            async with asyncio.timeout(60):
                assert await handle == "done"

    run_virtual(main)
    assert ran == ["began"]
    assert not {"fenced", "turn_failed"} & {*told}
