"""What a gate may miss: places that come while it does not read them, and places that were lost."""

from __future__ import annotations

import asyncio
from typing import Any

from msgspec.structs import replace

import holdfast as hf
from holdfast.backends.memory import MemoryData, open_memory_home
from holdfast.errors import StoreUnavailable
from holdfast.items import HEAD, Put
from holdfast.ports import Home
from holdfast.testing import PATIENT, VirtualClock, run_virtual
from holdfast.testing.world import swift


def test_what_came_unheard_after_a_slow_reading_is_found_before_the_gate_rests(memory_world, monkeypatch) -> None:
    clock = VirtualClock()
    app, other = (memory_world.app("shop", clock=clock, limits=PATIENT) for _ in range(2))
    letters = []
    for each in (app, other):
        mail = each.queue("mail", limit=1)

        @each.workflow(queue=mail)
        async def letter(number: int) -> int:
            await hf.sleep(40)
            return number

        letters.append(letter)

    async def main() -> None:
        async with app.worker():
            store: Any = app.runtime().home.store
            query = store.query

            async def slow(partition: str, **options: Any) -> Any:
                if partition.startswith("flow#"):
                    await asyncio.sleep(5)
                return await query(partition, **options)

            monkeypatch.setattr(store, "query", slow)
            first = await letters[0].start(0, id="first")
            while (await first.status()).status == "QUEUED":
                await asyncio.sleep(1)
            async with other:  # nobody hears of this start: the answer of the wake-up is lost
                write = other.runtime().home.store.write

                async def without_rousing(*writes: Any) -> Any:
                    return await write(*writes[:2])

                monkeypatch.setattr(other.runtime().home.store, "write", without_rousing)
                monkeypatch.setattr("holdfast.workflows.launch.tell_gate", lambda *_: None)
                second = await letters[1].start(1, id="second")
                assert second.id == "second"
            assert await first == 0
            assert await letters[0].handle("second") == 1

    run_virtual(main)


def test_a_place_that_was_lost_is_found_though_the_wake_up_of_the_gate_is_lost_too(monkeypatch) -> None:
    data, clock = MemoryData(), VirtualClock()

    async def open_home() -> Home:
        return replace(open_memory_home(data=data), writes_are_paid=True)

    app, client = (hf.App("shop", home=open_home, clock=clock, limits=swift()) for _ in range(2))
    letters = []
    for each in (app, client):
        mail = each.queue("mail", limit=1)

        @each.workflow(queue=mail)
        async def letter(number: int) -> int:
            return number

        letters.append(letter)

    async def main() -> None:
        async with app.worker():
            assert await (await letters[0].start(0, id="first")) == 0
            await asyncio.sleep(30)  # the gate rests
            async with client:
                store = client.runtime().home.store
                write = store.write

                async def without_places(*writes: Any) -> Any:
                    if any(isinstance(each, Put) and each.item.sort != HEAD for each in writes):
                        raise StoreUnavailable("the place is lost")
                    return await write(*writes)

                monkeypatch.setattr(store, "write", without_places)
                await letters[1].start(1, id="second")
            monkeypatch.setattr("holdfast.workflows.waiting_turn.tell_gate", lambda *_: None)
            assert await letters[0].handle("second") == 1

    run_virtual(main, limit_seconds=7_200)
