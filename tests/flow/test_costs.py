"""What a queue costs on SQLite, as counts of commits."""

from __future__ import annotations

import asyncio

import holdfast as hf

JOBS = 400
OWN_BEGIN = 1
"""Without a queue, a job is born with the lease of the process that starts it. In a queue it begins by a write."""
SHARE_OF_DECISIONS = 0.6


async def commits_of(app: hf.App, workflow: hf.Workflow[[int], int]) -> float:
    """The commits of one job, of many that are started one after the other."""
    async with app.worker():
        store = app.runtime().home.transactions
        began = store.commits
        handles = [await workflow.start(number) for number in range(JOBS)]
        assert await asyncio.gather(*handles) == list(range(JOBS))
        return (store.commits - began) / JOBS


async def test_a_queue_adds_few_commits_to_a_job_on_sqlite(sqlite_world) -> None:
    plain = sqlite_world.app("plain")

    @plain.workflow
    async def job(number: int) -> int:
        return number

    queued = sqlite_world.app("queued")
    queue = queued.queue("jobs", limit=64)

    @queued.workflow(queue=queue)
    async def queued_job(number: int) -> int:
        return number

    without, within = await commits_of(plain, job), await commits_of(queued, queued_job)
    assert within - without <= OWN_BEGIN + SHARE_OF_DECISIONS
