"""Heads that DynamoDB leaves unprocessed are asked for again, after a pause."""

from __future__ import annotations

import asyncio
from random import Random
from typing import Any

from holdfast.backends.aws import DynamoStore, Transport
from holdfast.backends.aws.layout import DEFAULT_PARTS, encode, part_of
from holdfast.items import Item
from holdfast.testing import run_virtual

HEADS = [Item(f"p{number}", due_at=1) for number in range(10)]


class Table:
    """A table whose batches answer one head each, from the ``busy``-th request on; before that, none."""

    def __init__(self, busy: int) -> None:
        self.busy = busy
        self.times: list[float] = []

    async def send(self, operation: str, parameters: dict[str, Any]) -> dict[str, Any]:
        if operation == "Query":
            part = parameters["ExpressionAttributeValues"][":q"]["S"]
            return {"Items": [encode(head, b"") for head in HEADS if part_of(head.partition, DEFAULT_PARTS) == part]}
        self.times.append(asyncio.get_running_loop().time())
        ((name, wanted),) = parameters["RequestItems"].items()
        count = 1 if len(self.times) > self.busy else 0
        answered, left = wanted["Keys"][:count], wanted["Keys"][count:]
        found = [encode(head, b"") for head in HEADS if {"S": head.partition} in [key["p"] for key in answered]]
        return {"Responses": {name: found}, "UnprocessedKeys": {name: {"Keys": left}} if left else {}}

    def close(self) -> None:
        pass


def test_a_busy_table_is_not_asked_without_a_pause() -> None:
    table = Table(busy=20)

    async def main() -> set[str]:
        store = DynamoStore(Transport(table, "t", random=Random(1)), "t")
        page = await store.due(10)
        await store.close()
        return {head.partition for head in page.items}

    assert run_virtual(main) == {head.partition for head in HEADS}
    pauses = [later - earlier for earlier, later in zip(table.times, table.times[1:], strict=False)]
    assert len(pauses) == 20 + len(HEADS) - 1
    assert all(pause > 0 for pause in pauses)
    assert sum(pauses[:20]) > 5, "they get longer while nothing comes"
    assert max(pauses[21:]) < 0.2, "and short again when something does"
