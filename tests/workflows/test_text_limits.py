"""Reasons and names of signals are bounded, whoever sends them; what a body has recorded is not judged again."""

from __future__ import annotations

import pytest

import holdfast as hf
from holdfast.bulk import cancelling, terminating
from holdfast.keys import LONGEST_REASON_BYTES, LONGEST_SIGNAL_NAME_BYTES, check_reason, check_signal_name

LONG = "é" * (LONGEST_REASON_BYTES // 2)


@pytest.mark.parametrize("verb", ["cancel", "terminate", "signal"])
async def test_what_is_too_long_is_refused_before_anything_is_written(memory_world, verb):
    app = memory_world.app()

    @app.workflow
    async def waits() -> None:
        await hf.signal("go")

    async with app:
        handle = await waits.start(id="w")
        before = len(memory_world.data.partitions["wf#waits#w"])
        with pytest.raises(hf.InvalidInput, match="at most 1,024") as refused:
            await getattr(handle, verb)(LONG + "!")
        assert len(str(refused.value)) < 400
        assert len(memory_world.data.partitions["wf#waits#w"]) == before
        await getattr(handle, verb)(LONG)


def test_the_limits_are_in_bytes():
    assert check_reason("an end", LONG) == LONG and check_signal_name("n" * LONGEST_SIGNAL_NAME_BYTES)
    for refuse in (lambda: check_reason("an end", LONG + "!"), lambda: check_signal_name(LONG + "!"),
                   lambda: cancelling(LONG + "!"), lambda: terminating(LONG + "!")):  # fmt: skip
        with pytest.raises(hf.InvalidInput):
            refuse()


async def test_a_body_is_not_judged_by_it(memory_world):
    app = memory_world.app()

    @app.workflow
    async def other() -> None:
        await hf.signal("go")

    @app.workflow
    async def body() -> str:
        await other.handle("o").cancel(LONG + "!")
        return "sent"

    async with app.worker():
        await other.start(id="o")
        assert await (await body.start(id="b")) == "sent"
