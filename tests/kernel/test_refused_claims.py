"""A ring that comes while a claim is being refused is heard: what refused it may be over by then."""

from __future__ import annotations

import asyncio

import pytest

import holdfast as hf
from holdfast.kernel import ownership
from holdfast.testing import run_virtual

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
