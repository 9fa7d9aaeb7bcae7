"""What a queue costs on SQLite, as counts of commits."""

from __future__ import annotations

import asyncio

import pytest

import holdfast as hf
from holdfast.coordination.offload import OffloadingStore
from holdfast.flow.record import decode_gate
from holdfast.items import HEAD, Item, Update, Write

JOBS = 320
LIMIT = 64

WITH_A_BACKLOG = 0.6
ONE_AFTER_THE_OTHER = 1.0
"""A start that waits for its own commit has a decision of its own, if it finds no slot free: this machine may start
faster than it ends.
"""
FOR_ONE_USER = 0.1
"""A start for which a slot is free begins by its own commit, and takes the slots along that are free since."""


async def one_after_the_other(workflow: hf.Workflow[[int], int]) -> None:
    handles = [await workflow.start(number) for number in range(JOBS)]
    assert await asyncio.gather(*handles) == list(range(JOBS))


async def one_user_who_waits(workflow: hf.Workflow[[int], int]) -> None:
    for number in range(JOBS):
        assert await (await workflow.start(number)) == number


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
        (one_user_who_waits, FOR_ONE_USER),
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
    assert counts[1] - counts[0] <= most, counts


async def test_a_decision_is_written_once_where_nothing_that_is_chosen_has_room_here(memory_world, monkeypatch) -> None:
    app = memory_world.app(limits=hf.Limits(running=1))
    queue, release, inside = app.queue("jobs", limit=2), asyncio.Event(), asyncio.Event()

    @app.step
    async def wait() -> None:
        inside.set()
        await release.wait()

    @app.workflow(queue=queue)
    async def job(number: int) -> int:
        await wait()
        return number

    decisions: list[frozenset[str]] = []
    write = OffloadingStore.write

    def counted(store: OffloadingStore, *writes: Write) -> object:
        match writes[0]:
            case Update(partition=queue.partition, body=bytes(body)):
                decisions.append(frozenset(decode_gate(body).held))
            case _:
                pass
        return write(store, *writes)

    async with app.worker():
        first = await job.start(1, id="1")
        await inside.wait()
        monkeypatch.setattr(OffloadingStore, "write", counted)
        second = await job.start(2, id="2")
        while not any("wf#job#2" in held for held in decisions):
            await asyncio.sleep(0.01)
        await asyncio.sleep(0.05)  # it would be written again at once
        written = [held for held in decisions if "wf#job#2" in held]
        release.set()
        assert [await first, await second] == [1, 2]
    assert len(written) == 1


async def test_the_head_of_a_job_that_waited_is_read_when_it_is_chosen_and_when_it_has_ended(
    memory_world, monkeypatch
) -> None:
    app = memory_world.app()
    queue = app.queue("jobs", limit=2)

    @app.workflow(queue=queue)
    async def job(number: int) -> int:
        return number

    reads: list[str] = []
    get = OffloadingStore.get

    async def counted(store: OffloadingStore, partition: str, sort: str = HEAD) -> Item | None:
        reads.append(partition)
        return await get(store, partition, sort)

    async with app:
        for number in range(20):
            await job.start(number, id=str(number))
        monkeypatch.setattr(OffloadingStore, "get", counted)
        async with app.worker():
            while app.telemetry.counts["ended"] < 20 or (await queue.status()).slots:
                await asyncio.sleep(0.01)
    assert [reads.count(f"wf#job#{number}") for number in range(20)] == [2] * 20
