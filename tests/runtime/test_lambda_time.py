"""An invocation ends before Lambda ends it, also a short one whose last rings find nobody who takes them."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
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
