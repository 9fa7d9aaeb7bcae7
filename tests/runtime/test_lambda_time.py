"""An invocation ends before Lambda ends it, also a short one whose last rings find nobody who takes them."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from msgspec.structs import replace
from tests.backends.aws.cloud import Cloud, Context, event_of

import holdfast as hf
from holdfast.backends.memory import open_memory_home
from holdfast.ports import Home
from holdfast.testing import run_virtual


def shop(app: hf.App) -> None:
    @app.step
    async def charge(order: str) -> str:
        await asyncio.sleep(500)
        return order

    @app.workflow
    async def checkout(order: str) -> str:
        return await charge(order)


async def open_store(owner: str) -> Home:
    return open_memory_home(owner=owner)


@pytest.mark.parametrize("seconds", [1, 3, 6, 60])
def test_a_queue_that_does_not_answer_does_not_take_the_time_of_the_answer(seconds: int):
    async def main() -> None:
        async with Cloud(open_store, shop) as cloud:

            async def silent(operation: str, parameters: dict[str, Any]) -> Any:
                await asyncio.sleep(3600)

            cloud.sqs.send = silent
            handler, began = cloud.environment(), asyncio.get_running_loop().time()
            start = '{"holdfast":"start","workflow":"checkout","id":"o-1","input":["o-1"]}'
            answer = await handler.invoke(event_of(("m-1", start)), Context(seconds, "request"))
            assert asyncio.get_running_loop().time() - began < seconds
            assert answer == {"batchItemFailures": []}, "what is left is found by the sweep"

    run_virtual(main)


class Cleans:
    """A cleaner that never finishes by itself."""

    def __init__(self) -> None:
        self.calls: list[float] = []

    async def clean(self, until: float) -> int:
        self.calls.append(until - asyncio.get_running_loop().time())
        await asyncio.sleep(self.calls[-1])
        return 1


@pytest.mark.parametrize("seconds", [6, 60, 900])
def test_a_clean_up_ends_before_the_invocation_does(seconds: int):
    cleaner = Cleans()

    async def open_cleaned(owner: str) -> Home:
        return replace(open_memory_home(owner=owner), cleaner=cleaner)

    async def main() -> None:
        async with Cloud(open_cleaned, shop) as cloud:
            handler, began = cloud.environment(), asyncio.get_running_loop().time()
            await handler.invoke({"holdfast": "clean-up"}, Context(seconds, "request"))
            assert asyncio.get_running_loop().time() - began < seconds
            assert seconds / 2 < cleaner.calls[0] < seconds * 4 / 5

    run_virtual(main)


def test_a_home_that_needs_no_clean_up_answers_at_once():
    async def main() -> None:
        async with Cloud(open_store, shop) as cloud:
            await cloud.environment().invoke({"holdfast": "clean-up"}, Context(60, "request"))

    run_virtual(main)
