"""Recorded histories, replayed on the same code, on code that continues them, and on code that does not."""

from __future__ import annotations

import pytest

import holdfast as hf
from holdfast.testing import PATIENT, VirtualClock, record_history, replay_history, run_virtual


def build(*, cents: int = 100, also: bool = False) -> hf.App:
    app = hf.App("golden", home="memory://", clock=VirtualClock(), limits=PATIENT)

    @app.step
    async def charge(amount: int) -> str:
        return f"paid {amount}"

    @app.step
    async def note(text: str) -> None: ...

    @app.workflow(version="1")
    async def order() -> str:
        paid = await charge(cents)
        await hf.sleep("365d")
        if also:
            await note(paid)
        return paid

    return app


def recorded_once() -> bytes:
    async def record() -> bytes:
        app = build()
        async with app.worker():
            handle = await app.registry.workflow("order").start(id="one")
            assert await handle == "paid 100"
            return await record_history(app, handle)

    return run_virtual(record)


def test_code_that_continues_a_history_replays_it() -> None:
    history = recorded_once()
    replay_history(build(), history)
    replay_history(build(also=True), history)


def test_code_that_asks_for_something_else_is_told_so() -> None:
    with pytest.raises(hf.NondeterminismError, match="charge#0"):
        replay_history(build(cents=200), recorded_once())
