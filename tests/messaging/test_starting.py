"""A worker that starts while its store does not answer sits it out, says so, and then works (G1)."""

from __future__ import annotations

import asyncio

import pytest
from msgspec.structs import replace
from tests.messaging.places import Placed, virtually

import holdfast as hf
from holdfast.backends.memory import open_memory_home
from holdfast.errors import StoreUnavailable

OUTAGE_SECONDS = 300


class Shaky:
    """A store that is away until somebody says otherwise."""

    def __init__(self, store):
        self._store = store
        self.down = True
        self.close, self.purge = store.close, store.purge

    def __getattr__(self, verb):
        asked = getattr(self._store, verb)

        async def answer(*given, **options):
            if self.down:
                raise StoreUnavailable("no answer")
            return await asked(*given, **options)

        return answer


def shaky(place):
    stores = []

    async def open_home():
        home = open_memory_home(data=place.data)
        stores.append(Shaky(home.store))
        return replace(home, store=stores[-1])

    return hf.App("shop", home=open_home, clock=place.clock), stores


def consume(app, seen):
    @app.consumer(Placed)
    async def pack(event: Placed) -> None:
        seen.append(event.order)


def tick(app, seen):
    @app.cron("* * * * *")
    async def minute() -> None:
        seen.append("tick")


@pytest.mark.parametrize("declare", [consume, tick])
def test_a_worker_that_starts_in_an_outage_waits_for_its_end(declare, caplog):
    @virtually
    async def test(place):
        app, stores = shaky(place)
        client, seen = place.app(), []
        declare(app, seen)
        stop = asyncio.Event()

        async def work():
            async with app.worker():
                await stop.wait()

        working = asyncio.create_task(work())
        await asyncio.sleep(OUTAGE_SECONDS)
        assert not working.done(), "it has given up"
        assert app.telemetry.counts["store_awaited"] == 1
        stores[0].down = False
        await asyncio.sleep(10)
        async with client:
            await client.publish(Placed("1"))
        await asyncio.sleep(120)
        stop.set()
        await working
        assert seen[0] == ("1" if declare is consume else "tick")

    test()
    assert "store_awaited" in caplog.text


@virtually
async def test_a_worker_that_waits_for_its_store_can_be_stopped(place):
    app, _ = shaky(place)
    consume(app, [])

    async def work():
        async with app.worker():
            raise AssertionError("it has started")

    working = asyncio.create_task(work())
    await asyncio.sleep(OUTAGE_SECONDS)
    working.cancel()
    with pytest.raises(asyncio.CancelledError):
        await working
