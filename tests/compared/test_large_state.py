"""Large state beside an index by hand, and ours, under the same schedules."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace

from tests.compared import naive
from tests.compared.stage import do, outcome, play

OLD, NEW = "old " * 50_000, "new " * 50_000


class Bucket:
    """Objects under keys. An upload takes as long as its sender's line does."""

    def __init__(self, objects, seconds):
        self.objects = objects
        self.seconds = seconds

    async def upload(self, key, data):
        await asyncio.sleep(self.seconds)
        self.objects[key] = data


def by_hand(app, stage):
    async def save(data, seconds):
        return await naive.save_large(stage.store, Bucket(stage.objects, seconds), "film", data)

    async def load(blob=None):
        index = await stage.store.get("film")
        return stage.objects[blob or index["blob"]]

    async def upload(data):
        return await naive.save_large(stage.store, Bucket(stage.objects, 0.1), "film", data)

    return SimpleNamespace(save=save, load=load, upload=upload, download=load)


def ours(app, stage):
    film = app.document(str, "film")

    async def save(data, seconds):
        read = await film.find()
        await asyncio.sleep(seconds)
        if read is None:
            await film.create(data)
        else:
            await film.put(data, version=read.version)

    async def load():
        return (await film.get()).value

    async def upload(data):
        return await app.blobs.put(data.encode())

    async def download(blob):
        return b"".join([piece async for piece in app.blobs.read(blob)]).decode()

    return SimpleNamespace(save=save, load=load, upload=upload, download=download)


def test_an_older_writer_does_not_win_because_he_is_slow(compare):
    async def schedule(stage):
        one, two = await stage.boot(), await stage.boot()
        slow = do(one, "save", OLD, 5)
        await asyncio.sleep(2)
        fast = await outcome(do(two, "save", NEW, 0.1))
        return fast, await outcome(slow), (await do(two, "load"))[:3]

    by_naive, by_ours = compare(schedule, by_hand, ours)
    assert by_naive == ("film/2", "film/0", "old")
    assert by_ours == (None, "Conflict", "new")


def test_a_reference_stays_what_it_was_a_reference_to():
    async def schedule(stage):
        one, two = await stage.boot(), await stage.boot()
        old, _ = await asyncio.gather(do(one, "upload", OLD), do(two, "upload", NEW))
        return (await do(one, "download", old))[:3]

    assert play(schedule, by_hand) == "new"  # both were stored in the same second
    assert play(schedule, ours) == "old"
