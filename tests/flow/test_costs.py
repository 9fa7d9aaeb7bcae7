"""What a queue costs on SQLite, as counts of commits."""

from __future__ import annotations

import asyncio

import pytest

import holdfast as hf

JOBS = 320
LIMIT = 64

WITH_A_BACKLOG = 0.6
ONE_AFTER_THE_OTHER = 1.0
"""A start that waits for its own commit has a decision of its own. Its execution begins by that commit."""


async def one_after_the_other(workflow: hf.Workflow[[int], int]) -> None:
    handles = [await workflow.start(number) for number in range(JOBS)]
    assert await asyncio.gather(*handles) == list(range(JOBS))


async def all_at_once(workflow: hf.Workflow[[int], int]) -> None:
    handles = await asyncio.gather(*(workflow.start(number) for number in range(JOBS)))
    assert await asyncio.gather(*handles) == list(range(JOBS))


async def as_many_users_as_slots(workflow: hf.Workflow[[int], int]) -> None:
    async def user(number: int) -> None:
        for each in range(JOBS // LIMIT):
            assert await (await workflow.start(number + each)) == number + each

    await asyncio.gather(*map(user, range(LIMIT)))


@pytest.mark.parametrize(
    ("way", "most"),
    [
        (all_at_once, WITH_A_BACKLOG),
        (as_many_users_as_slots, WITH_A_BACKLOG),
        (one_after_the_other, ONE_AFTER_THE_OTHER),
    ],
)
async def test_a_queue_adds_few_commits_to_a_job_on_sqlite(way, most, sqlite_world) -> None:
    plain, queued = sqlite_world.app("plain"), sqlite_world.app("queued")
    queue = queued.queue("jobs", limit=LIMIT)

    @plain.workflow
    async def job(number: int) -> int:
        return number

    @queued.workflow(queue=queue)
    async def queued_job(number: int) -> int:
        return number

    counts: list[float] = []
    for app, workflow in ((plain, job), (queued, queued_job)):
        async with app.worker():
            store = app.runtime().home.transactions
            began = store.commits
            await way(workflow)
            counts.append((store.commits - began) / JOBS)
    assert counts[1] - counts[0] <= most
