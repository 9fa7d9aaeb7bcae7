"""What was cancelled, paused, terminated or timed out while it waited: it counts no more from then on."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest
from msgspec.structs import replace

import holdfast as hf
from holdfast.backends.memory import MemoryData, open_memory_home
from holdfast.ports import Home
from holdfast.testing import PATIENT, VirtualClock, run_virtual

MANY = 3


async def cancel(handle: hf.Handle[None]) -> None:
    await handle.cancel("not needed")


async def pause(handle: hf.Handle[None]) -> None:
    await handle.pause()


async def terminate(handle: hf.Handle[None]) -> None:
    await handle.terminate("not at all")


async def time_out(_handle: hf.Handle[None]) -> None:
    await asyncio.sleep(60)


LEAVE: tuple[Callable[[hf.Handle[None]], Awaitable[None]], ...] = (cancel, pause, terminate, time_out)


@pytest.mark.parametrize("elsewhere", [False, True])
@pytest.mark.parametrize("billed", [False, True])
@pytest.mark.parametrize("leave", LEAVE)
def test_what_waits_no_more_counts_no_more(
    leave: Callable[[hf.Handle[None]], Awaitable[None]], *, billed: bool, elsewhere: bool
) -> None:
    data, clock = MemoryData(), VirtualClock()

    async def open_home() -> Home:
        return replace(open_memory_home(data=data), writes_are_paid=billed)

    app, client = (hf.App("shop", home=open_home, clock=clock, limits=PATIENT) for _ in range(2))
    found: dict[hf.App, tuple[hf.Queue, hf.Workflow[[], None], hf.Workflow[[], None]]] = {}
    for each in (app, client):
        mail = each.queue("mail", limit=1, most_waiting=MANY)

        @each.workflow(queue=mail)
        async def letter() -> None:
            await hf.sleep("1d")

        @each.workflow(queue=mail, timeout="30s" if leave is time_out else None)
        async def some_letter() -> None:
            await hf.sleep("1d")

        found[each] = mail, letter, some_letter

    async def main() -> None:
        async with app.worker(), client:
            mail, letter, some_letter = found[app]
            first = await letter.start(id="first")
            while (await first.status()).status == "QUEUED":
                await asyncio.sleep(0.1)
            some = [await some_letter.start(id=str(number)) for number in range(MANY)]
            await asyncio.sleep(1)
            with pytest.raises(hf.QueueFull):
                await letter.start(id="too many")
            for each in some:
                await leave(found[client][2].handle(each.id) if elsewhere else each)
            await asyncio.sleep(15 if elsewhere else 1)
            assert (await mail.status()).waiting == 0
            for number in range(MANY):
                await letter.start(id=f"then {number}")
            await asyncio.sleep(1)
            with pytest.raises(hf.QueueFull):
                await letter.start(id="too many again")
            if leave is pause:
                await some[0].resume()
                await first.cancel()
                await asyncio.sleep(15)
                assert [(await each.status()).status for each in (some[0], letter.handle("then 0"))] == [
                    "QUEUED",
                    "SUSPENDED",
                ]

    run_virtual(main)
