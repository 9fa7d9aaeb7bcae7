"""Looks at the index of what is due: one for all of it while it is small, each part by itself when it is not."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from itertools import pairwise
from random import Random
from typing import Any

import pytest
from msgspec import Struct
from tests.backends.aws.short_pages import ShortPages

from holdfast.backends.aws import DynamoStore, due, leases_seen
from holdfast.backends.aws.connection import Connection
from holdfast.backends.aws.due import CROWDED_LOOKS
from holdfast.backends.aws.leases_seen import LEAST_SECONDS, MOST_SECONDS, SAMPLES, Entry, LeasesSeen
from holdfast.items import Item, Put, Update

OpenStore = Callable[..., Awaitable[DynamoStore]]

FEW = 20


pytestmark = pytest.mark.gentle("it counts requests")


@pytest.fixture(autouse=True)
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(due, "FEW", FEW)


async def test_with_more_than_a_few_in_the_index_it_costs_one_look_at_each_part(open_store: OpenStore) -> None:
    store = await open_store()
    names = [f"wf#checkout#order-{n}" for n in range(FEW + 20)]
    await asyncio.gather(*(store.write(Put(Item(name, due_at=1000 + n))) for n, name in enumerate(names)))
    store.meter.reset()
    assert (await store.due(999)).items == ()
    assert store.meter.usage["Scan"].requests == 1
    assert store.meter.usage["Scan"].read_units <= 2
    for _ in range(CROWDED_LOOKS):
        assert (await store.due(999)).items == ()
    assert store.meter.usage["Scan"].requests == 1
    assert store.meter.usage["Query"].requests == 4 * (1 + CROWDED_LOOKS)
    assert [head.partition for head in (await store.due(1010)).items] == names[:11]
    assert store.meter.usage["Scan"].requests == 2
    await store.close()


async def test_every_head_that_is_due_is_on_one_page_in_order(open_store: OpenStore) -> None:
    """Pages of any size, parts that hold different numbers of heads, and many heads that are due at one time."""
    store, random = await open_store(), Random(5)
    due_at = {f"wf#checkout#order-{n}": random.choice([100, 200, random.randrange(300)]) for n in range(FEW + 50)}
    await asyncio.gather(*(store.write(Put(Item(name, due_at=when))) for name, when in due_at.items()))
    for limit in (7, 60, 1000):
        found: list[Item] = []
        page = await store.due(250, limit=limit)
        found += page.items
        while page.cursor is not None:
            page = await store.due(250, after=page.cursor, limit=limit)
            assert len(page.items) <= limit
            found += page.items
        assert [head.due_at for head in found] == sorted(when for when in due_at.values() if when <= 250)
        assert len({head.partition for head in found}) == len(found)
    await store.close()


async def test_pages_that_are_empty_and_not_the_last_leave_nothing_out(open_store: OpenStore) -> None:
    made: list[ShortPages] = []
    due_at = {f"wf#checkout#order-{n}": 100 + n // 3 for n in range(40)}
    late = {name for name in due_at if Random(name).random() < 0.3}

    def short(connection: Connection) -> ShortPages:
        made.append(ShortPages(connection, late))
        return made[-1]

    store = await open_store(short)
    await asyncio.gather(*(store.write(Put(Item(name, due_at=when))) for name, when in due_at.items()))
    for limit in (1, 7, 1000):
        found: list[Item] = []
        cursors: list[str | None] = [None]
        while cursors[-1] is not None or len(cursors) == 1:
            page = await store.due(110, after=cursors[-1], limit=limit)
            assert page.cursor not in cursors[1:], "it goes on"
            cursors.append(page.cursor)
            found += page.items
        assert sorted(head.partition for head in found) == sorted(
            name for name, when in due_at.items() if when <= 110 and name not in late
        )
        assert [head.due_at for head in found] == sorted(head.due_at or 0 for head in found)
    assert made[0].pages[0] > 0, "no page was empty"
    await store.close()


class Slow(Struct):
    """Answers one key of a batch at a time, or none."""

    connection: Connection
    none: int = 0
    times: list[float] = []

    async def send(self, operation: str, parameters: dict[str, Any]) -> dict[str, Any]:
        if operation != "BatchGetItem":
            return await self.connection.send(operation, parameters)
        self.times.append(asyncio.get_running_loop().time())
        ((table, asked),) = parameters["RequestItems"].items()
        if len(self.times) <= self.none:
            return {"Responses": {}, "UnprocessedKeys": {table: asked}}
        first, rest = asked["Keys"][:1], asked["Keys"][1:]
        answer = await self.connection.send(operation, {"RequestItems": {table: asked | {"Keys": first}}})
        return answer | {"UnprocessedKeys": {table: asked | {"Keys": rest}} if rest else {}}

    def close(self) -> None:
        self.connection.close()


async def test_keys_that_were_not_processed_are_asked_for_again_after_longer_and_longer_pauses(
    open_store: OpenStore,
) -> None:
    made: list[Slow] = []

    def slow(connection: Connection) -> Slow:
        made.append(Slow(connection, none=3, times=[]))
        return made[0]

    store = await open_store(slow)
    for name in "abc":
        await store.write(Put(Item(name, due_at=5)))
    assert sorted(head.partition for head in (await store.due(5)).items) == ["a", "b", "c"]
    times = made[0].times
    pauses = [later - earlier for earlier, later in pairwise(times)]
    assert len(pauses) == 5
    assert all(pause >= least for pause, least in zip(pauses, (0.05, 0.1, 0.2, 0.05, 0.05), strict=True))
    await store.close()


IN_FLIGHT = 160
OWNERS = 4


async def look(store: DynamoStore, before: int) -> tuple[list[str], float]:
    """What is due, and the read units of finding that out."""
    store.meter.reset()
    page = await store.due(before)
    assert page.cursor is None
    return sorted(head.partition for head in page.items), store.meter.total.read_units


def owner_of(number: int) -> str:
    return f"worker-{number % OWNERS}"


async def leased(store: DynamoStore, until: int, owners: Sequence[str]) -> None:
    """All are in flight, under leases until then."""
    numbers = [number for number in range(IN_FLIGHT) if owner_of(number) in owners]
    await asyncio.gather(
        *(
            store.write(
                Put(
                    Item(f"wf#a#{n:04}", owner=owner_of(n), lease_until=until, epoch=1, due_at=100 + n, body=b"x" * 300)
                )
            )
            for n in numbers
        )
    )


async def test_looks_of_an_idle_worker_read_a_few_of_the_heads_that_others_work_on(
    open_store: OpenStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("LEAST_SECONDS", "MOST_SECONDS"):  # however long this test takes
        monkeypatch.setattr(leases_seen, name, 3_600.0)
    working, idle = await open_store(), await open_store()
    idle.table = working.table
    idle._due._table = working.table
    everyone = [f"worker-{n}" for n in range(OWNERS)]
    await leased(working, 15_000, everyone)
    found, units = await look(idle, 5_000)
    assert (found, units >= IN_FLIGHT) == ([], True), "the first time each is read"
    for beat in range(1, 4):
        await leased(working, 15_000 + 5_000 * beat, everyone)
        found, units = await look(idle, 5_000 + 5_000 * beat)
        assert found == []
        assert units <= OWNERS * SAMPLES + 10

    await working.write(Put(Item("wf#a#new", due_at=20_001)))
    await working.write(Update(partition="wf#a#0001", owner=None, lease_until=None, due_at=20_002))
    assert (await look(idle, 25_000))[0] == ["wf#a#0001", "wf#a#new"], "what was released is found at once"
    await working.write(Update(partition="wf#a#new", due_at=None))
    await working.write(Update(partition="wf#a#0001", due_at=None))

    await leased(working, 60_000, everyone[:-1])
    of_the_dead = [f"wf#a#{n:04}" for n in range(IN_FLIGHT) if owner_of(n) == everyone[-1]]
    assert (await look(idle, 29_999))[0] == []
    assert (await look(idle, 30_000))[0] == of_the_dead, "when their leases have lapsed, all of them"
    assert len((await look(idle, 60_000))[0]) == IN_FLIGHT, "a longer look sees every lease"
    await working.close()
    await idle.close()


async def test_a_head_is_read_again_from_time_to_time_whatever_others_show() -> None:
    seen = LeasesSeen()
    entries = [Entry(5, f"p{n}") for n in range(10)]
    heads = {entry.partition: Item(entry.partition, owner="o", lease_until=9, due_at=5) for entry in entries}
    read_at: list[float] = []
    for now in range(0, 2_000, 5):
        wanted, resting = seen.divide(entries, now)
        assert len(wanted) + len(resting.get("o", ())) == 10
        if "p9" in wanted:
            read_at.append(now)
        seen.note(wanted, heads, now)
    pauses = [later - earlier for earlier, later in pairwise(read_at)]
    assert pauses == sorted(pauses)
    assert (pauses[0], pauses[-1]) == (LEAST_SECONDS, MOST_SECONDS)
