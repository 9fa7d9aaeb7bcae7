"""What those hear who look at, or wait for, an execution that needs other code than there is."""

from __future__ import annotations

import asyncio
import logging

import pytest
from msgspec.structs import replace

import holdfast as hf
from holdfast.items import Update
from holdfast.workflows.record import decode_record, encode_record, partition_of

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
            store, place = app.access().home.store, partition_of("job", "j")
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
                app.access().heard(partition_of("job", "j"))
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
