"""One row that cannot be read, or a time that nobody can name, hides nothing else."""

from __future__ import annotations

import asyncio
import math
from datetime import UTC, datetime

import apsw
import pytest

import holdfast as hf
from holdfast.clock import EARLIEST_MS, LATEST_MS, moment
from holdfast.items import EXISTS, Update
from holdfast.ports import BLOB_MARK


@pytest.fixture
def waits(app):
    @app.workflow
    async def waits() -> None:
        await hf.signal("go")

    return waits


@pytest.mark.parametrize("body", [b"", b"{", b"\xff", b'{"workflow": 7}', BLOB_MARK + b"0" * 64 + b"-7", BLOB_MARK])
async def test_an_execution_that_cannot_be_read_is_shown_with_its_key(app, waits, body) -> None:
    async with app:
        for id in ("one", "bad", "two"):
            await waits.start(id=id)
        update = Update(partition="wf#waits#bad", when=EXISTS, body=body)
        store = app.runtime().home.store
        bare = getattr(store, "_store", store)  # a body as it lies in the store, whatever the home makes of it
        await bare.write(update)
        page = await app.executions("waits")
        assert {each.id: (each.error or "").partition(":")[0] for each in page.executions} == {
            "one": "",
            "bad": "damaged",
            "two": "",
        }
        assert len((await app.executions(status="READY", since=datetime(2000, 1, 1, tzinfo=UTC))).executions) == 2


async def test_workers_go_on_with_the_others(sqlite_world, eventually) -> None:
    app = sqlite_world.app()

    @app.workflow
    async def waits() -> str:
        return await hf.signal("go", str)

    async with app:
        for id in ("one", "bad"):
            await waits.start(id=id)
    with apsw.Connection(str(sqlite_world.file)) as file:
        file.execute("UPDATE holdfast_heads SET body = x'ff', due_at = 9223372036854775807 WHERE partition LIKE '%bad'")
    file.close()
    async with app.worker():
        handle = waits.handle("one")
        await handle.signal("go", "on")
        assert await handle.result(timeout="60s") == "on"
        (bad,) = [each for each in (await app.executions()).executions if each.id == "bad"]
        assert bad.due_at == moment(LATEST_MS)
        assert (await waits.handle("bad").status()).error == bad.error


@pytest.mark.parametrize("ms", [-(2**63), EARLIEST_MS, 0, LATEST_MS, 2**63 - 1])
def test_every_time_that_can_be_stored_can_be_shown(ms) -> None:
    assert datetime(1, 1, 1, tzinfo=UTC) <= moment(ms) <= datetime.max.replace(tzinfo=UTC)


@pytest.mark.parametrize("seconds", [1e12, 1e17, math.inf, math.nan])
@pytest.mark.parametrize("way", ["sleep", "timeout", "wait_for"])
async def test_a_wait_that_has_no_end_is_refused_at_once(app, seconds, way) -> None:
    @app.step
    async def step() -> None: ...

    @app.workflow
    async def job() -> str:
        try:
            match way:
                case "sleep":
                    await asyncio.sleep(seconds)
                case "timeout":
                    async with asyncio.timeout(seconds):
                        await step()
                case _:
                    await asyncio.wait_for(asyncio.shield(asyncio.create_task(step())), seconds)
        except ValueError as error:
            return f"{type(error).__name__}: {error}"
        return "it waits"

    async with app.worker():
        handle = await job.start(id="j")
        told = await handle.result(timeout="60s")
        assert "a body must wait for at most 366,000 days" in told or (math.isnan(seconds) and "NaN" in told)
        assert (await handle.status()).status == "COMPLETED"
        assert app.telemetry.counts["turn_failed"] == 0


async def test_a_wait_of_a_thousand_years_is_one_that_can_be_shown(app, eventually) -> None:
    @app.workflow
    async def job() -> None:
        await asyncio.sleep(1000 * 365 * 86_400.0)

    async with app.worker():
        handle = await job.start(id="j")
        await eventually(lambda: app.telemetry.counts["suspended"])
        due_at = (await handle.status()).due_at
        assert due_at is not None
        assert due_at.year > 3000


async def test_a_long_listing_lets_others_have_the_loop(app, waits) -> None:
    async with app:
        for number in range(20):
            await waits.start(id=str(number))
        turns = 0

        async def others() -> None:
            nonlocal turns
            while True:
                turns += 1
                await asyncio.sleep(0)

        beside = asyncio.create_task(others())
        page = await app.executions(root=waits.handle("0"), limit=1)  # there is no index of families
        beside.cancel()
        assert [each.id for each in page.executions] == ["0"]
        assert turns >= 19
