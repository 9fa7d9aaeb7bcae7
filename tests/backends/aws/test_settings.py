"""The settings of a home: read once, changed while old and new processes work, and no head is lost from the sweep."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable
from random import Random
from typing import Any

import pytest
from tests.backends.aws.world import new_table

from holdfast.backends.aws import DynamoStore, Settings, Transport, due
from holdfast.backends.aws.connection import Connection, ThreadedConnection
from holdfast.backends.aws.layout import part_of
from holdfast.backends.aws.parts import ANNOUNCED_MS, SETTLED_MS, change_parts, keep_parts, settle
from holdfast.backends.aws.settings import SETTINGS_SORT, TRUSTED_MS, KnownSettings
from holdfast.errors import ConfigurationError, StoreUnusable
from holdfast.items import Item, Put, Update
from holdfast.ports import SALT_PARTITION


class Clock:
    def __init__(self) -> None:
        self.ms = 1_000_000_000_000

    def now_ms(self) -> int:
        return self.ms


class Dying:
    """The connection of a process that dies after so many requests."""

    def __init__(self, connection: Connection, after: int) -> None:
        self.connection, self.left = connection, after

    async def send(self, operation: str, parameters: dict[str, Any]) -> dict[str, Any]:
        self.left -= 1
        if self.left < 0:
            raise StoreUnusable("died")
        return await self.connection.send(operation, parameters)

    def close(self) -> None:
        self.connection.close()


class Place:
    """A table, a clock, and the processes that are opened on it."""

    def __init__(self, table: str, client: Any) -> None:
        self.table, self.client, self.clock = table, client, Clock()

    def transport(self, wrap: Callable[[Any], Any] = lambda connection: connection, **options: Any) -> Transport:
        connection = wrap(ThreadedConnection(None, None, client=self.client))
        return Transport(connection, self.table, random=Random(3), **options)

    def process(self) -> DynamoStore:
        transport = self.transport()
        return DynamoStore(transport, self.table, settings=KnownSettings(transport, self.table, self.clock))

    async def change(self, parts: int) -> Settings:
        store = self.process()
        try:
            return await change_parts(store, parts, self.clock)
        finally:
            await store.close()

    async def settle(self, wrap: Callable[[Any], Any] = lambda connection: connection, **options: Any) -> int:
        transport = self.transport(wrap, **options)
        store = DynamoStore(transport, self.table)
        try:
            return await settle(store, transport, self.clock)
        finally:
            await store.close()


@pytest.fixture
def place(client: Any, dynamodb: str, monkeypatch: pytest.MonkeyPatch) -> Place:
    """As for a home with more heads in its index than one look shows."""
    monkeypatch.setattr(due, "FEW", 1)
    return Place(new_table(client), client)


def in_part(part: str, parts: int) -> str:
    """The name of an entity that belongs there."""
    return next(name for n in itertools.count() if part_of(name := f"wf#a#{n}", parts) == part)


async def found(store: DynamoStore) -> set[str]:
    return {head.partition for head in (await store.due(10)).items}


async def stored_in(store: DynamoStore, client: Any, partition: str) -> str:
    item = await asyncio.to_thread(client.get_item, TableName=store.table, Key={"p": {"S": partition}, "s": {"S": "@"}})
    return item["Item"]["q"]["S"]


async def test_settings_are_read_once_and_only_for_what_needs_them(place: Place) -> None:
    store = place.process()
    await store.write(Put(Item("wf#a#1", "j#1")))
    await store.write(Put(Item("wf#a#1")))
    assert store.meter.total.read_units == 0
    await asyncio.gather(*(store.write(Put(Item(f"wf#a#{n}", due_at=5))) for n in range(10)))
    assert await found(store) == {f"wf#a#{n}" for n in range(10)}
    assert store.meter.usage["GetItem"].requests == 1
    place.clock.ms += TRUSTED_MS
    await store.write(Update(partition="wf#a#1", due_at=6), Put(Item("wf#a#2", "j#1")))
    await store.write(Update(partition="wf#a#2", due_at=None))
    assert store.meter.usage["GetItem"].requests == 2
    await store.close()


async def test_old_and_new_processes_find_what_each_other_writes_at_every_moment_of_a_migration(place: Place) -> None:
    """They read the settings at any time; each change is to another number of parts."""
    random, written, used = Random(11), set[str](), set[str]()
    processes = [place.process() for _ in range(3)]
    for parts in (12, 3):
        for store in processes:
            if random.random() < 0.7:  # the others last read them for the last change
                await found(store)
            place.clock.ms += random.randrange(TRUSTED_MS // 10)
        await place.change(parts)
        ends_ms = place.clock.ms + ANNOUNCED_MS + TRUSTED_MS
        while place.clock.ms < ends_ms:
            writer = random.choice(processes)
            partition = f"wf#a#{len(written)}"
            await writer.write(Put(Item(partition, due_at=5)))
            written.add(partition)
            used.add(await stored_in(writer, place.client, partition))
            for store in processes:
                assert await found(store) == written
            place.clock.ms += random.choice((60_000, 100_000, 150_000))
    assert len(used) > 6, "parts of both numbers were in use"
    for store in processes:
        await store.close()


async def test_a_function_that_sweeps_keeps_the_number_of_parts(place: Place) -> None:
    transport = place.transport()
    known = KnownSettings(transport, place.table, place.clock)
    store = DynamoStore(transport, place.table, settings=known)
    for _ in range(10):  # a sweep a minute
        await keep_parts(store, known, 20)
        place.clock.ms += 60_000
    there = await known.now()
    assert (there.parts, there.parts_before, there.since) == (20, (4,), 1_000_000_000_000 + ANNOUNCED_MS)
    store.meter.reset()
    for _ in range(4):
        await keep_parts(store, known, 20)
        place.clock.ms += 60_000
    assert store.meter.total.requests <= 1, "nothing but the settings is read, once in five minutes"
    await place.change(8)
    for _ in range(20):
        await keep_parts(store, known, 20)
        place.clock.ms += 60_000
    assert (await known.now()).parts == 20, "whoever else has changed it, once that has taken effect"
    await store.close()


async def test_a_process_that_was_frozen_for_hours_reads_the_settings_before_it_writes(place: Place) -> None:
    frozen, woken = place.process(), in_part("3", 20)
    await frozen.write(Put(Item("wf#a#1", due_at=5)))
    await place.change(20)
    place.clock.ms += 2 * SETTLED_MS
    await frozen.write(Put(Item(woken, due_at=5)))
    assert await stored_in(frozen, place.client, woken) == "3" != part_of(woken, 2)
    await frozen.close()


async def test_heads_in_parts_that_are_no_longer_used_are_moved_and_their_owners_do_not_notice(place: Place) -> None:
    store = place.process()
    await place.change(20)
    place.clock.ms += ANNOUNCED_MS
    names = [in_part(str(part), 20) for part in range(20)]
    for name in names:
        await store.write(Put(Item(name, owner="me", lease_until=9, epoch=1, due_at=5)))
    await place.change(4)
    place.clock.ms += ANNOUNCED_MS
    with pytest.raises(ConfigurationError, match="settle after"):
        await place.settle()
    place.clock.ms += SETTLED_MS
    straggler = in_part("7", 20) + "x"
    assert await place.settle() == 16
    assert await place.settle() == 0
    assert {await stored_in(store, place.client, name) for name in names} == {"0", "1", "2", "3"}
    store.meter.reset()
    place.clock.ms += TRUSTED_MS
    assert await found(store) == set(names)
    assert store.meter.usage["Query"].requests == 4
    await store.write(Update(partition=names[9], body=b"still mine", due_at=None))
    await store.write(Put(Item(straggler, due_at=5)))
    assert await found(store) == {*names, straggler} - {names[9]}
    await store.close()


@pytest.mark.parametrize("died_at", [1, 2, 5, 8])
async def test_settling_can_be_stopped_anywhere_and_begun_again(place: Place, died_at: int) -> None:
    store = place.process()
    await place.change(20)
    place.clock.ms += ANNOUNCED_MS
    names = {in_part(str(part), 20) for part in range(20)}
    for name in names:
        await store.write(Put(Item(name, due_at=5)))
    await place.change(18)
    place.clock.ms += ANNOUNCED_MS + SETTLED_MS
    with pytest.raises(StoreUnusable, match="died"):
        await place.settle(lambda connection: Dying(connection, after=died_at))
    assert await found(store) == names
    await place.settle()
    assert await found(store) == names
    await store.close()


async def test_one_change_at_a_time(place: Place) -> None:
    assert (await place.change(4)) == Settings(), "nothing changes"
    wanted = await place.change(20)
    assert wanted == Settings(parts=20, parts_before=(4,), since=place.clock.ms + ANNOUNCED_MS)
    assert await place.change(20) == wanted
    with pytest.raises(ConfigurationError, match="takes effect at"):
        await place.change(8)
    with pytest.raises(ConfigurationError, match="between 1 and 200"):
        await place.change(0)
    place.clock.ms += ANNOUNCED_MS
    assert (await place.change(4)).parts_before == (20,)


async def test_settings_of_a_newer_release_are_not_misread(place: Place) -> None:
    store = place.process()
    await store.write(Put(Item(SALT_PARTITION, SETTINGS_SORT, revision=1, body=b'{"parts":"auto"}')))
    with pytest.raises(StoreUnusable, match="use a newer Holdfast"):
        await store.write(Put(Item("wf#a#1", due_at=5)))
    await store.close()
