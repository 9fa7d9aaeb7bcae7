"""What is over does not pile up: marks of answered callbacks, and what earlier runs have left."""

from __future__ import annotations

import asyncio

import pytest
from msgspec import Raw

import holdfast as hf
from holdfast.backends.memory import open_memory_home
from holdfast.coordination.inbox import INBOX_PREFIX, USED
from holdfast.coordination.lease import Fenced
from holdfast.items import Item, Put
from holdfast.paging import items
from holdfast.replay.entries import Done, TakenOver, decode_entries
from holdfast.replay.journal import SEGMENT_PREFIX, Journal
from holdfast.workflows.clearing import clear_earlier_runs
from holdfast.workflows.record import (
    ANSWERED_PREFIX,
    CallbackAnswer,
    answered_sort,
    callback_sort,
    decode_record,
    encode_message,
    partition_of,
)
from holdfast.workflows.runs import count_of


@pytest.fixture
def tokens():
    return asyncio.Queue()


@pytest.fixture
def tell(app, tokens):
    @app.step
    async def tell(token: str) -> None:
        tokens.put_nowait(token)

    return tell


async def rows(app, handle, prefix):
    store = app.runtime().home.store
    return [item.sort async for item in items(store, partition_of(handle.workflow, handle.id), prefix=prefix)]


async def run_of(app, handle):
    """The number of its run: they count from 0 only where heads do not go first."""
    head = await app.runtime().home.store.get(partition_of(handle.workflow, handle.id))
    return decode_record(head.body).run


async def test_an_answered_callback_leaves_nothing_that_a_look_into_the_inbox_reads(app, tell, tokens, eventually):
    @app.workflow
    async def job() -> None:
        for _ in range(5):
            callback = hf.callback(int)
            await tell(callback.token)
            await callback
        await hf.signal("go")

    async with app.worker():
        handle = await job.start(id="j")
        used = []
        for n in range(5):
            used.append(await tokens.get())
            await app.callback(used[-1]).complete(n)

        async def taken():
            return not await rows(app, handle, INBOX_PREFIX)

        await eventually(taken)
        assert len(await rows(app, handle, ANSWERED_PREFIX)) == 5
        for token in used:
            with pytest.raises(hf.InvalidToken):
                await app.callback(token).complete(7)
        assert await rows(app, handle, INBOX_PREFIX) == []
        await handle.signal("go")
        await handle


async def test_a_mark_of_the_old_format_still_keeps_a_second_answer_out(app, tell, tokens):
    @app.workflow
    async def job() -> int:
        callback = hf.callback(int)
        await tell(callback.token)
        return await callback

    async with app.worker():
        handle = await job.start(id="j")
        token = await tokens.get()
        partition = partition_of("job", "j")
        sort = callback_sort(await run_of(app, handle), "callback#0")
        await app.runtime().home.store.write(Put(Item(partition, sort, status=USED)))
        with pytest.raises(hf.InvalidToken):
            await app.callback(token).complete(1)
        await handle.terminate()


async def test_an_answer_of_the_old_format_is_taken_and_leaves_its_mark(app, tell, tokens):
    @app.workflow
    async def job() -> int:
        callback = hf.callback(int)
        await tell(callback.token)
        answer = await callback
        await hf.signal("go")
        return answer

    async with app.worker():
        handle = await job.start(id="j")
        token = await tokens.get()
        run, partition = await run_of(app, handle), partition_of("job", "j")
        answer = encode_message(CallbackAnswer(run, "callback#0", Raw(b"3")))
        await app.runtime().home.store.write(Put(Item(partition, callback_sort(run, "callback#0"), body=answer)))
        await handle.signal("go")
        assert await handle.result("60s") == 3
        assert await rows(app, handle, INBOX_PREFIX) == [callback_sort(run, "callback#0")]
        with pytest.raises(hf.InvalidToken):
            await app.callback(token).complete(4)


async def test_a_new_run_deletes_what_the_ones_before_it_have_left(app, tell, tokens):
    @app.workflow
    async def job(run: int) -> int:
        callback = hf.callback(int)
        await tell(callback.token)
        await callback
        await tell("")
        if run < 3:
            hf.continue_as_new(run + 1)
        return run

    async with app.worker():
        handle = await job.start(0, id="j")
        for _ in range(4):
            await app.callback(await tokens.get()).complete(1)
            assert await tokens.get() == ""
        assert await handle == 3
        run = await run_of(app, handle)
        assert count_of(run) == 3
        runs = {sort.removeprefix(SEGMENT_PREFIX).partition("#")[0] for sort in await rows(app, handle, SEGMENT_PREFIX)}
        assert runs <= {f"{run:06d}"}, "on some homes the last entries ride in the head"
        assert await rows(app, handle, ANSWERED_PREFIX) == [answered_sort(run, "callback#0")]


def journal(store, owner, epoch):
    return Journal(store, "wf#job#j", run=0, owner=owner, epoch=epoch)


async def places(store):
    """The journals that are there, with who wrote each segment and what is in it."""
    page = await store.query("wf#job#j", prefix=SEGMENT_PREFIX)
    return [(item.sort, item.owner, decode_entries(item.body)) for item in page.items]


async def append(writer, op):
    writer.record(Done(op, 1, "step"))
    await writer.commit()


async def test_a_process_that_was_stopped_in_an_earlier_run_finds_its_place_taken_for_ever():
    store = open_memory_home().store
    stopped = journal(store, "A", 1)
    await append(stopped, "a#0")
    newer = journal(store, "B", 2)
    await newer.load()
    await newer.fence(died_by=5)
    await append(newer, "b#0")
    for _ in range(2):
        await clear_earlier_runs(store, "wf#job#j", 1)
        assert await places(store) == [("j#000000#0000000000", "A", []), ("j#000000#0000000001", "B", [TakenOver(5)])]
    with pytest.raises(Fenced):
        await append(stopped, "c#0")


async def test_a_write_that_nobody_confirmed_finds_its_place_taken_when_it_is_sent_again():
    """Its answer was lost, and its sender stopped before it asked again."""
    store = open_memory_home().store
    stopped = journal(store, "A", 1)
    await store.write(stopped.segment([Done("a#0", 1, "step")]))
    newer = journal(store, "B", 2)
    await newer.load()
    await newer.fence()
    await clear_earlier_runs(store, "wf#job#j", 1)
    with pytest.raises(Fenced):
        await append(stopped, "a#0")


async def test_an_owner_that_was_overtaken_before_it_could_fence_finds_its_place_taken():
    """The owner before it had written there meanwhile."""
    store = open_memory_home().store
    first, overtaken, newest = journal(store, "A", 1), journal(store, "B", 2), journal(store, "C", 3)
    await overtaken.load()
    await append(first, "a#0")
    await newest.load()
    await newest.fence(died_by=5)
    await clear_earlier_runs(store, "wf#job#j", 1)
    with pytest.raises(Fenced):
        await overtaken.fence(died_by=5)
