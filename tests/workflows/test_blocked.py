"""What those hear who look at, or wait for, an execution that needs other code than there is."""

from __future__ import annotations

import asyncio
import logging

import pytest
from msgspec import Raw
from msgspec.structs import replace

import holdfast as hf
from holdfast.coordination.inbox import INBOX_PREFIX
from holdfast.items import Put, RevisionIs, Update
from holdfast.paging import items
from holdfast.workflows.record import decode_record, encode_record, partition_of
from holdfast.workflows.view import view_of

WHY = "the journal and the code disagree at charge#0"


@pytest.fixture
def block(world, reaches):
    """``await block(app)``: leave an execution of a pinned workflow blocked; answers a handle for an open app."""

    async def leave_blocked(app, why=WHY):
        first = world.app()

        @first.workflow(name="job", version="1", versions="pinned")
        async def old() -> str:
            return await hf.signal("go", str)

        @app.workflow(name="job", version="2", versions="pinned")
        async def new() -> str:
            return await hf.signal("go", str)

        async with first.worker():
            await reaches(await old.start(id="j"), "SUSPENDED")
        handle = new.handle("j")
        async with app.worker():
            await handle.signal("go", "on")
            await reaches(handle, "BLOCKED")
        async with app:
            store, place = app.runtime().home.store, partition_of("job", "j")
            record = decode_record((await store.get(place)).body)
            await store.write(Update(partition=place, body=encode_record(replace(record, blocked=why))))
        return handle

    return leave_blocked


async def test_its_status_says_why(app, block):
    handle = await block(app)
    async with app:
        status = await handle.status()
        assert (status.status, status.blocked, status.error) == ("BLOCKED", WHY, None)
        (listed,) = (await app.executions(status="BLOCKED")).executions
        assert listed.blocked == WHY


async def test_it_says_something_if_the_record_has_no_reason(app, block):
    handle = await block(app, "")
    async with app:
        assert (await handle.status()).blocked == "other code is needed than the workers have"


async def test_whoever_is_out_of_patience_hears_why(app, block):
    handle = await block(app)
    async with app:
        with pytest.raises(hf.WaitTimeout, match=f"has not ended within 10ms; it is BLOCKED, .*: {WHY}"):
            await handle.result("10ms")


async def test_whoever_waits_on_finds_it_in_the_log_once(app, block, caplog):
    handle = await block(app)
    async with app:
        with caplog.at_level(logging.WARNING, "holdfast"), pytest.raises(hf.WaitTimeout):
            waiting = asyncio.ensure_future(handle.result())
            for _ in range(3):  # each ring makes it look again
                await asyncio.sleep(0.02)
                app.runtime().wake_listeners.heard(partition_of("job", "j"))
            await handle.result("50ms")
        waiting.cancel()
    mine = [each for each in caplog.records if "is BLOCKED, and is awaited" in each.getMessage()]
    assert len(mine) == 2  # one for each of the two that wait
    assert all(each.getMessage().endswith(WHY) and each.name == "holdfast" for each in mine)


async def test_once_it_goes_on_there_is_no_reason_any_more(app, block):
    handle = await block(app)
    async with app:
        await handle.move()
    async with app.worker():
        assert await handle == "on"
        assert (await handle.status()).blocked is None


# ── A body that nothing can wake ────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def forgotten(app):
    """A workflow whose body waits for what nothing can wake, exposes a query, and notes its clean-up."""
    cleaned: list[str] = []

    @app.step
    async def note(what: str) -> None:
        cleaned.append(what)

    @app.workflow(name="forgotten")
    async def forgotten() -> None:
        @hf.query
        def state() -> str:
            return "waiting"

        try:
            await asyncio.Event().wait()
        finally:
            await note("cleaned up")

    return forgotten, cleaned


async def test_what_nothing_can_wake_can_be_asked_and_cancelled(app, forgotten, reaches):
    workflow, cleaned = forgotten
    async with app.worker():
        handle = await workflow.start(id="j")
        assert "nothing can ever wake" in (await reaches(handle, "BLOCKED")).blocked
        assert await handle.query("state") == "waiting"
        await handle.cancel("nobody needs it")
        with pytest.raises(hf.ExecutionCancelled, match="nobody needs it"):
            await handle
    assert cleaned == ["cleaned up"]


async def test_what_nothing_can_wake_can_be_cancelled_while_no_worker_runs(app, forgotten, reaches):
    workflow, cleaned = forgotten
    async with app.worker():
        handle = await workflow.start(id="j")
        await reaches(handle, "BLOCKED")
    async with app:
        await handle.cancel()
    async with app.worker():
        with pytest.raises(hf.ExecutionCancelled):
            await handle
    assert cleaned == ["cleaned up"]


async def test_what_nothing_can_wake_can_be_terminated(app, forgotten, reaches):
    workflow, cleaned = forgotten
    async with app.worker():
        handle = await workflow.start(id="j")
        await reaches(handle, "BLOCKED")
        await handle.terminate("away with it")
        with pytest.raises(hf.ExecutionTerminated, match="away with it"):
            await handle
    assert cleaned == []


async def test_what_only_its_timeout_can_wake_waits_for_that(app, forgotten):
    workflow, cleaned = forgotten
    async with app.worker():
        handle = await workflow.start(id="j", timeout="50ms")
        with pytest.raises(hf.ExecutionTimedOut):
            await handle
    assert cleaned == ["cleaned up"]


async def test_a_clean_up_that_nothing_can_wake_is_blocked_again_and_can_be_terminated(app, reaches):
    @app.workflow
    async def job() -> None:
        try:
            await hf.signal("never")
        finally:
            await asyncio.Event().wait()

    async with app.worker():
        handle = await job.start(id="j", timeout="50ms")
        await reaches(handle, "BLOCKED")
        await handle.terminate()
        with pytest.raises(hf.ExecutionTerminated):
            await handle


async def test_a_message_that_cannot_be_read_blocks_and_what_came_with_it_is_kept(app, reaches, eventually):
    tokens = []

    @app.step
    async def ask(token: str) -> None:
        tokens.append(token)

    @app.workflow
    async def job() -> list[str]:
        answer = hf.callback(str)
        await ask(answer.token)
        return [await hf.signal("go", str), await answer]

    async with app.worker():
        handle = await job.start(id="j")
        await eventually(lambda: tokens)
        await reaches(handle, "SUSPENDED")
    async with app:
        await handle.signal("go", "on")
        await app.callback(tokens[0]).answer(value=Raw(b"NaN"))
    async with app.worker():
        blocked = await reaches(handle, "BLOCKED")
        assert "a message to an execution in the store cannot be read" in (blocked.blocked or "")
        store, place = app.runtime().home.store, partition_of("job", "j")
        assert [each.name for each in (await view_of(app.runtime(), place)).untaken] == ["go"]
        (damaged,) = [each async for each in items(store, place, prefix=INBOX_PREFIX) if b"NaN" in each.body]
        mended = replace(damaged, body=damaged.body.replace(b"NaN", b'"17"'))
        await store.write(Put(mended, RevisionIs(damaged.revision)))
        await handle.signal("look", "again")
        assert await handle == ["on", "17"]
