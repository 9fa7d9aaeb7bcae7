"""Writing behind: what is recorded while effects run becomes durable beside them; nothing may follow what did not."""

from __future__ import annotations

import asyncio
from collections import Counter
from unittest import mock

import holdfast as hf
from holdfast.backends.memory import MemoryData, open_memory_home
from holdfast.errors import StoreUnusable
from holdfast.items import Put
from holdfast.ports import Home
from holdfast.replay.entity import JournaledEntity
from holdfast.replay.entries import Done, decode_entries
from holdfast.replay.journal import SEGMENT_PREFIX
from holdfast.replay.work import Work


class FailingFlush:
    """A store that takes its time over the first segment with a result in it, and then fails to write it."""

    def __init__(self, store):
        self._store = store
        self.under_way, self.goes_on = asyncio.Event(), asyncio.Event()
        self.written = []

    def __getattr__(self, name):
        return getattr(self._store, name)

    async def write(self, *writes):
        segments = [
            write.item for write in writes if isinstance(write, Put) and write.item.sort.startswith(SEGMENT_PREFIX)
        ]
        results = [(each.epoch, entry.op) for each in segments for entry in decode_entries(each.body) if is_done(entry)]
        if results and not self.under_way.is_set():
            self.under_way.set()
            await self.goes_on.wait()
            raise StoreUnusable("the disk is full")
        answer = await self._store.write(*writes)
        self.written += results
        return answer


def is_done(entry):
    return isinstance(entry, Done)


async def test_after_a_failed_flush_nothing_follows():
    stores, ran, may_end = [], Counter(), asyncio.Event()

    async def open_failing():
        home = open_memory_home(data=MemoryData())
        stores.append(FailingFlush(home.store))
        return Home(home.url, home.owner, stores[0], home.doorbell)

    app = hf.App("shop", home=open_failing, limits=hf.Limits(lease_ms=100, sweep_seconds=0.01))

    @app.step
    async def first() -> None:
        ran["first"] += 1

    @app.step
    async def second() -> None:
        ran["second"] += 1
        await may_end.wait()

    @app.step
    async def third() -> None:
        ran["third"] += 1

    @app.workflow
    async def job() -> str:
        await asyncio.gather(first(), second())
        await third()
        return "done"

    async with app.worker():
        handle = await job.start(id="j")
        (store,) = stores
        await store.under_way.wait()  # with the result of the first
        may_end.set()
        entity = app.employed.host.entities["wf#job#j"]
        async with asyncio.timeout(60):
            while not entity.work.pending:  # the third is asked for, and waits for the flush
                await asyncio.sleep(0)
        store.goes_on.set()
        assert await handle.result("60s") == "done"
    assert ran == {"first": 2, "second": 2, "third": 1}
    assert store.written
    assert {epoch for epoch, _ in store.written} == {2}, "the result of the second was written without the first"
    assert app.telemetry.counts["fenced"] == 1


async def test_a_flush_of_an_entity_that_is_forgotten_is_given_up():
    entity, work = JournaledEntity("p", mock.Mock()), Work(mock.Mock(), mock.Mock())
    entity.work = work
    flushing = work.flushing = asyncio.create_task(asyncio.Event().wait())
    entity.forget()
    await asyncio.wait((flushing,))
    assert flushing.cancelled()
