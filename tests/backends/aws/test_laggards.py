"""Where the stream covers accepted work, a message costs no entry of the index, and is found all the same (G1)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import pytest
from msgspec.structs import replace
from tests.backends.aws.streamed import StreamSettings

import holdfast as hf
from holdfast.backends.aws import DynamoStore, Usage
from holdfast.backends.aws.connection import perform
from holdfast.backends.aws.laggards import StreamLaggards, change_cover
from holdfast.backends.aws.table import STREAM_VIEW
from holdfast.backends.aws.transport import Transport
from holdfast.backends.memory import open_memory_home
from holdfast.errors import ConfigurationError, StoreUnavailable
from holdfast.items import ABSENT, UNOWNED, Delete, Item, OwnerIs, Put, Update
from holdfast.ports import Home

OpenStore = Callable[..., Awaitable[DynamoStore]]

NOW = 1_800_000_000_000
LATER = NOW + 3_600_000


class At:
    def now_ms(self) -> int:
        return NOW


CLAIM = Update(partition="a", when=UNOWNED, owner="me", lease_until=NOW + 5, add_epoch=1, load=True)


def release(due_at: int | None) -> Update:
    return Update(partition="a", when=OwnerIs("me", 1), owner=None, lease_until=None, due_at=due_at)


async def streamed(open_store: OpenStore) -> tuple[DynamoStore, StreamLaggards]:
    inner = await open_store()
    settings: Any = StreamSettings(At())
    transport: Transport = inner._transport
    return DynamoStore(transport, inner.table, settings=settings), StreamLaggards(transport, settings)


async def due(store: DynamoStore, before: int = LATER) -> list[str]:
    return [head.partition for head in (await store.due(before)).items]


@pytest.mark.gentle("it counts requests and units")
async def test_a_message_and_its_handling_are_three_units_and_no_entry(open_store: OpenStore) -> None:
    store, laggards = await streamed(open_store)
    await store.write(Put(Item("a"), ABSENT))
    store.meter.reset()
    message = Put(Item("a", "i#1#me", body=b"hello"), ABSENT)
    await store.write(message, Update(partition="a", due_at=NOW, add_revision=1))
    assert await due(store) == []
    await store.write(CLAIM)
    await store.write(release(None), Delete("a", "i#1#me"))
    assert store.meter.usage["UpdateItem"] == Usage(requests=3, write_units=3)
    assert await laggards.keep(["a"]) == 0
    await store.close()


async def test_what_is_still_to_be_done_enters_the_index_once_and_leaves_it_when_it_is_done(
    open_store: OpenStore,
) -> None:
    store, laggards = await streamed(open_store)
    await store.write(Put(Item("a", due_at=NOW), ABSENT))
    assert [await laggards.keep(["a", "missing"]) for _ in range(2)] == [1, 0]
    assert await due(store) == ["a"]
    await store.write(CLAIM)
    assert await laggards.keep(["a"]) == 0
    await store.write(release(None))
    assert await due(store) == []
    assert await laggards.keep(["a"]) == 0
    await store.close()


async def test_an_owner_that_dies_is_found(open_store: OpenStore) -> None:
    store, laggards = await streamed(open_store)
    await store.write(Put(Item("a", due_at=NOW), ABSENT))
    await store.write(CLAIM)
    assert await due(store) == []
    assert await laggards.keep(["a"]) == 1
    assert await due(store) == ["a"]
    await store.close()


async def test_a_time_to_come_is_in_the_index_until_a_message_comes(open_store: OpenStore) -> None:
    store, laggards = await streamed(open_store)
    await store.write(Put(Item("a", due_at=LATER), ABSENT))
    assert await due(store) == ["a"]
    assert await laggards.keep(["a"]) == 0
    await store.write(Update(partition="a", due_at=NOW))
    assert await due(store) == []
    await store.write(CLAIM)
    await store.write(release(LATER))
    assert await due(store) == ["a"]
    assert await laggards.keep(["a"]) == 0
    await store.close()


async def test_the_stream_covers_only_if_the_table_has_one(open_store: OpenStore, client: Any) -> None:
    store = await open_store()
    with pytest.raises(ConfigurationError, match="deploy with stream=True"):
        await change_cover(store, store._transport, "stream")
    stream = {"StreamSpecification": {"StreamEnabled": True, "StreamViewType": STREAM_VIEW}}
    perform(client, "UpdateTable", {"TableName": store.table, **stream})
    await change_cover(store, store._transport, "stream")
    assert (await store.get("home#", "settings")).body == b'{"cover":"stream"}'  # type: ignore[union-attr]
    await change_cover(store, store._transport, "index")
    assert (await store.get("home#", "settings")).body == b"{}"  # type: ignore[union-attr]
    await store.close()


async def test_the_function_keeps_what_the_stream_shows_as_unfinished_and_fails_with_the_table() -> None:
    kept: list[list[str]] = []

    class Kept:
        async def keep(self, partitions: Sequence[str]) -> int:
            if kept:
                raise StoreUnavailable("the table does not answer")
            kept.append([*partitions])
            return len(partitions)

    async def home() -> Home:
        return replace(open_memory_home(), laggards=Kept())

    def record(partition: str, **image: Any) -> dict[str, Any]:
        changed = {"Keys": {"p": {"S": partition}, "s": {"S": "@"}}, "NewImage": image, "SequenceNumber": "1"}
        return {"eventSource": "aws:dynamodb", "eventName": "MODIFY", "dynamodb": changed}

    due = {"w": {"S": "1"}}
    records = {"Records": [record("a", **due), record("b", **due), record("a")]}
    handler = hf.App("shop", home=home).lambda_handler()
    assert await handler.invoke(records) == {"batchItemFailures": []}
    assert kept == [["b"]]
    with pytest.raises(StoreUnavailable):
        await handler.invoke(records)
    await handler.aclose()
