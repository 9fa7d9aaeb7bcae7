"""What a sweep tells: how much is due and how late it is, and what waits for code that is gone."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

import holdfast as hf
from holdfast.actors.model import Actors
from holdfast.backends.memory import MemoryData, open_memory_home
from holdfast.items import Item, Put
from holdfast.kernel.sweep import BACKLOG_MS
from holdfast.ports import Home
from holdfast.runtime.lambda_ import worker_of
from holdfast.workflows.record import BLOCKED

NOW_MS = 1_767_225_600_000


class Clock:
    ms = NOW_MS

    def now_ms(self) -> int:
        return self.ms


class Place:
    """One home, and apps with a pinned workflow of some version."""

    def __init__(self) -> None:
        self.data, self.clock = MemoryData(), Clock()
        self.told: list[dict[str, object]] = []

    async def open(self) -> Home:
        return open_memory_home(data=self.data)

    def app(self, code: str = "1") -> hf.App:
        app = hf.App("shop", home=self.open, clock=self.clock)

        @app.workflow(version=code, versions="pinned")
        async def pinned() -> str:
            return await hf.signal("go", str)

        app.telemetry.subscribe(self._hear)
        return app

    def _hear(self, event: str, fields: dict[str, object]) -> None:
        if event == "swept":
            self.told.append(fields)

    async def put(self, *items: Item) -> None:
        home = await self.open()
        await home.store.write(*map(Put, items))
        await home.doorbell.close()

    async def sweep(self, code: str = "1") -> dict[str, object]:
        """What a sweep tells that only looks, as a function's does."""
        worker = await worker_of(self.app(code))
        await worker.worker.sweeper.sweep(0, report=True)
        await worker.close()
        return self.told[-1]


@pytest.fixture
def place() -> Place:
    return Place()


def head(key: str, **fields: Any) -> Item:
    return Item(f"elsewhere#{key}", **fields)


async def test_nothing_is_due_and_nobody_blocked(place: Place) -> None:
    await place.put(head("later", due_at=NOW_MS + 1), head("never"), head("ended", status="COMPLETED"))
    assert await place.sweep() == {"due": 0, "oldest_seconds": 0.0, "blocked": 0}


async def test_the_oldest_is_told_in_seconds_leases_that_have_run_out_among_them(place: Place) -> None:
    await place.put(
        head("now", due_at=NOW_MS),
        head("late", due_at=NOW_MS - 90_500),
        head("held", owner="somebody", lease_until=NOW_MS + 1, due_at=NOW_MS - 500_000),
        head("left", owner="dead", lease_until=NOW_MS - 120_250),
        *(head(f"more{n}", due_at=NOW_MS - n) for n in range(1100)),
    )
    assert await place.sweep() == {"due": 1103, "oldest_seconds": 120.25, "blocked": 0}


async def test_all_that_are_blocked_are_counted_whenever_they_are_looked_at_again(place: Place) -> None:
    async with place.app().worker() as app:
        for id in "abc":
            await app.registry.workflow("pinned").start(id=id)
    async with asyncio.timeout(60), place.app("2").worker() as other:
        for id in "abc":
            await other.handle("pinned", id).signal("other", "y")
            while (await other.handle("pinned", id).status()).status != BLOCKED:
                await asyncio.sleep(0.001)
        place.clock.ms += 20_000
    assert await place.sweep("2") == {"due": 0, "oldest_seconds": 0.0, "blocked": 3}
    place.clock.ms += 45_000
    told = await place.sweep("2")
    assert (told["due"], told["blocked"]) == (3, 3), "they are looked at again, and were blocked until now"


async def test_an_empty_status_is_no_status(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """Heads of the outbox have none, and their model knows no entity that could be blocked."""
    monkeypatch.setattr(Actors, "blocked", "")
    await place.put(Item("actor#Cart#u1", due_at=NOW_MS + 1))
    assert (await place.sweep())["blocked"] == 0


async def test_a_worker_tells_when_it_starts_and_then_once_a_minute(place: Place) -> None:
    async with place.app().worker() as app:
        assert len(place.told) == 1
        assert app.employed is not None
        sweep = app.employed.sweeper._sweep_again
        await sweep()
        place.clock.ms += BACKLOG_MS - 1
        await sweep()
        assert len(place.told) == 1
        place.clock.ms += 1
        await sweep()
        await sweep()
        assert len(place.told) == 2


async def test_nobody_counts_where_nobody_listens(place: Place) -> None:
    app = hf.App("shop", home=place.open, clock=place.clock)
    async with app.worker():
        assert app.telemetry.counts["swept"] == 0
