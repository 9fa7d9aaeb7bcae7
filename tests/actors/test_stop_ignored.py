"""A method that ignores that its worker stops: nothing of it is kept, and its call goes elsewhere."""

from __future__ import annotations

import asyncio

import holdfast as hf


async def test_a_method_that_ignores_the_stop_of_its_worker_is_applied_once_elsewhere(app):
    began = []

    class Till(hf.Actor, app=app, timeout="20s"):
        count: int = 0

        async def add(self) -> int:
            began.append(1)
            self.count += 1
            if len(began) == 1:
                try:
                    await asyncio.sleep(60)
                except asyncio.CancelledError:
                    return self.count
            return self.count

    async with app:
        async with app.worker(grace="0.1s"):
            call = asyncio.ensure_future(Till.at("1").add())
            await asyncio.sleep(0.1)
        await asyncio.sleep(0.1)
        async with app.worker():
            assert await call == 1
    assert len(began) == 2
    assert not app.telemetry.counts["turn_failed"]


async def test_a_method_that_never_ends_is_forgotten_with_its_worker(app):
    errors = []
    asyncio.get_running_loop().set_exception_handler(lambda _loop, context: errors.append(context))

    class Till(hf.Actor, app=app, timeout="300ms"):
        async def hang(self) -> None:
            until = asyncio.get_running_loop().time() + 1.5
            while asyncio.get_running_loop().time() < until:
                try:
                    await asyncio.sleep(0.05)
                except asyncio.CancelledError:
                    continue

    async with app:
        async with app.worker(grace="0.05s"):
            call = asyncio.ensure_future(Till.at("1").hang())
            await asyncio.sleep(0.1)
        await asyncio.sleep(2)
        call.cancel()
        await asyncio.gather(call, return_exceptions=True)
    assert not errors
