"""A signal is looked at soon although its ring came at a bad moment (G1)."""

from __future__ import annotations

import asyncio

from tests.actors.test_hints import hooked
from tests.messaging.places import virtually

import holdfast as hf


@virtually
async def test_a_signal_that_comes_while_an_owner_does_not_hear_that_he_has_let_go_is_looked_at(place):
    app, store = hooked(place, "wf#order#17")

    @app.workflow
    async def order() -> int:
        return await hf.signal("paid", int)

    async with app.worker():
        handle = await order.start(id="17")
        store().on_release = lambda: handle.signal("paid", 1999)
        await asyncio.sleep(30)
        assert (await handle.status()).status == "COMPLETED"
