"""``app.blobs``: bytes that are stored once and read piece by piece."""

from __future__ import annotations

import random

import pytest

import holdfast as hf
from holdfast.coordination.offload import GRACE_MS
from holdfast.errors import ConfigurationError, InvalidInput, NotFound

BYTES = random.Random(7).randbytes(3 * 2**20)


class Clock:
    ms = 1_000_000_000_000

    def now_ms(self) -> int:
        return self.ms


@pytest.fixture(params=["memory", "sqlite"])
def app(request, tmp_path) -> hf.App:
    home = "memory://" if request.param == "memory" else f"sqlite:///{tmp_path}/home.db"
    return hf.App("shop", home=home, clock=Clock())


async def read(app, blob) -> bytes:
    return b"".join([piece async for piece in app.blobs.read(blob)])


async def purge(app) -> None:
    await app.runtime().home.purges.purge(app.clock.now_ms(), 100)


@pytest.mark.parametrize("data", [b"", b"one line\n" * 1000, BYTES])
async def test_what_was_put_is_read(app, data):
    async with app:
        blob = await app.blobs.put(data)
        assert blob.size_bytes == len(data)
        assert await read(app, blob) == data
        assert await app.blobs.put(data) == blob


async def test_a_blob_goes_through_a_workflow(app):
    @app.step
    async def measure(blob: hf.Blob) -> int:
        return len(await read(app, blob))

    @app.workflow
    async def job(blob: hf.Blob) -> int:
        return await measure(blob)

    async with app.worker():
        handle = await job.start(await app.blobs.put(b"123"), id="one")
        assert await handle == 3


async def test_it_stays_for_the_longest_time_asked_for(app):
    async with app:
        blob = await app.blobs.put(b"data", keep="30d")
        await app.blobs.put(b"data", keep="7d")
        app.clock.ms += 29 * 24 * 3600 * 1000
        await purge(app)
        assert await read(app, blob) == b"data"
        app.clock.ms += 2 * GRACE_MS
        await purge(app)
        app.clock.ms += 2 * GRACE_MS
        await purge(app)
        with pytest.raises(NotFound):
            await read(app, blob)


async def test_without_a_time_it_stays_until_it_is_forgotten(app):
    async with app:
        blob = await app.blobs.put(b"data", keep="1s")
        await app.blobs.put(b"data")
        for _ in range(3):
            app.clock.ms += 2 * GRACE_MS
            await purge(app)
        assert await read(app, blob) == b"data"
        await app.blobs.forget(blob)
        await app.blobs.forget(blob)
        app.clock.ms += 2 * GRACE_MS
        await purge(app)
        with pytest.raises(NotFound):
            await read(app, blob)


@pytest.mark.parametrize("data", ["text", None, 7, [b"a"]])
async def test_only_bytes_are_bytes(app, data):
    async with app:
        with pytest.raises(InvalidInput, match="bytes"):
            await app.blobs.put(data)


async def test_a_closed_app_has_no_blobs(app):
    with pytest.raises(ConfigurationError, match="not open"):
        await app.blobs.put(b"data")
