"""What a queue costs on DynamoDB: write units of one job, counted in virtual time, so that they are the same each run.

``tests/backends/aws/test_units.py`` compares the meter with what DynamoDB itself reports.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from tests.cost.workloads import Ask, Make, measured

import holdfast as hf
from holdfast.cost.deployments import Deployment, Shared
from holdfast.cost.metering import DEFAULTS, uncounted
from holdfast.cost.ours import bill_of
from holdfast.cost.trial import Path as Way
from holdfast.ports import Home
from holdfast.testing import PATIENT, VirtualClock, run_virtual

JOBS = 640
EXTRA_UNITS = {5: 3.3, 64: 3.1, 1_000: 3.4}
"""By the limit. A start writes a place, which is deleted after the decision: two units. Without a queue a job is born
with its lease; here a write of its own begins it, and enters it in the index of what is due, as its birth does there.
The rest are decisions, which gather. The head of a queue grows with the slots that are taken.
"""


EXTRA_UNITS_BEYOND_A_CLAIM = {5: 2.3, 64: 2.1, 1_000: 2.4}
"""If a client starts the jobs, a worker claims each by a write of its own. In a queue the begin stands in its place."""


def units_of_a_job(limit: int | None, *, started_elsewhere: bool) -> float:
    """Write units of one job, of many that take a tenth of a second each: started at once by the worker itself, or
    before it by a client in another process.
    """
    clock = VirtualClock()
    shared = Shared(None, DEFAULTS, clock)

    def process(owner: str) -> tuple[hf.App, Any]:
        async def open_home() -> Home:
            return shared.open(owner)

        app = hf.App("shop", home=open_home, clock=clock, limits=PATIENT)
        queue = None if limit is None else app.queue("jobs", limit=limit)

        @app.step
        async def work(number: int) -> int:
            await asyncio.sleep(0.1)
            return number

        @app.workflow(queue=queue)
        async def job(number: int) -> int:
            return await work(number)

        return app, job

    async def start_all(job: Any) -> None:
        await asyncio.gather(*(job.start(number, id=str(number)) for number in range(JOBS)))

    async def trial() -> float:
        app, job = process("worker")
        if started_elsewhere:
            client, same_job = process("client")
            async with client:
                await start_all(same_job)
        async with app.worker():
            if not started_elsewhere:
                await start_all(job)
            handles = [job.handle(str(number)) for number in range(JOBS)]
            assert await asyncio.gather(*handles) == list(range(JOBS))
            return shared.store.meter.total.write_units / JOBS

    return run_virtual(trial)


@pytest.mark.parametrize("limit", EXTRA_UNITS)
@pytest.mark.parametrize("started_elsewhere", [False, True])
def test_a_queue_adds_few_units_to_a_job(limit: int, started_elsewhere: bool) -> None:
    without = units_of_a_job(None, started_elsewhere=started_elsewhere)
    within = units_of_a_job(limit, started_elsewhere=started_elsewhere)
    most = (EXTRA_UNITS_BEYOND_A_CLAIM if started_elsewhere else EXTRA_UNITS)[limit]
    assert within - without <= most, f"{without:.2f} units, {within:.2f} in a queue"


def a_job(limit: int | None) -> Make:
    """A job of one step, started by a client in another process, in a queue or not."""

    def make(app: hf.App) -> Ask:
        queue = None if limit is None else app.queue("jobs", limit=limit)

        @app.step
        async def step() -> None:
            return None

        @app.workflow(queue=queue)
        async def job() -> None:
            await step()

        async def run(number: int, _deployment: Deployment) -> None:
            handle = await job.start(id=str(number))
            with uncounted():
                await handle

        return run

    return make


@pytest.mark.parametrize(("way", "named"), [(Way.WORKERS, "a worker"), (Way.FUNCTIONS, "functions")])
def test_the_cost_of_a_job_that_is_alone_in_its_queue_is_as_documented(way: Way, named: str) -> None:
    each = [measured(a_job(limit), path=way) for limit in (None, 5)]
    units = [used.usage.write_units / used.runs for used in each]
    told_apart = {line.what: line.count for line in bill_of("a job", each[1]).lines}
    assert told_apart["DynamoDB: written by queues, limits"] == units[1] - units[0]
    assert told_apart["DynamoDB: written"] == units[0]
    told = (Path(__file__).parents[2] / "docs" / "cost.md").read_text()
    assert f"| a job alone in its queue, {named} | {units[0]:g} | {units[1]:g} |" in told
