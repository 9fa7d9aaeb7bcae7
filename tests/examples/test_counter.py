"""The counter counts, whoever calls, and never goes below nothing."""

from __future__ import annotations

import asyncio

import pytest
from counter import Counter, app

import holdfast as hf


def test_it_adds_and_takes(virtually):
    async def main() -> None:
        counter = Counter.at("a")
        assert await counter.value() == 0
        assert await counter.add() == 1
        assert await counter.add(5) == 6
        assert await counter.add(-1) == 5
        assert await counter.take(5) == 0
        assert await Counter.at("b").value() == 0

    virtually(app, main)


def test_what_cannot_be_taken_changes_nothing(virtually):
    async def main() -> None:
        counter = Counter.at("a")
        await counter.add(3)
        with pytest.raises(ValueError, match="4 is more"):
            await counter.take(4)
        assert await counter.value() == 3
        assert await counter.take(3) == 0

    virtually(app, main)


def test_no_addition_is_lost(virtually):
    async def main() -> None:
        answers = await asyncio.gather(*(Counter.at("a").add() for _ in range(100)))
        assert sorted(answers) == list(range(1, 101))

    virtually(app, main)


def test_one_request_counts_once(virtually):
    async def main() -> None:
        assert [await Counter.at("a", request_id="r").add(2) for _ in range(3)] == [2, 2, 2]
        with pytest.raises(hf.IdempotencyMismatch):
            await Counter.at("a", request_id="r").add(3)
        assert await Counter.at("a").value() == 2

    virtually(app, main)
