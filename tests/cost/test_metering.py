"""The metering store is the store it is made of, and counts what DynamoDB would bill.

``tests/backends/aws/test_units.py`` compares it with what DynamoDB itself reports; here are the cases by hand.
"""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest

from holdfast.backends.aws import Settings
from holdfast.backends.aws.meter import Usage
from holdfast.backends.memory import MemoryData, open_memory_home
from holdfast.cost.metering import metered, uncounted
from holdfast.errors import Refused
from holdfast.items import ABSENT, Delete, Item, OwnerIs, Put, Update
from holdfast.ports import BLOB_MARK, Store
from holdfast.testing.conformance import StoreConformance

NOISE = Random(1).randbytes(2_800)
BODY = NOISE[:700]
NOW = 1_000_000_000_000


def fresh(**options):
    return metered(open_memory_home(), **options)


class TestMeteringStore(StoreConformance):
    histories = message_histories = 15  # what it wraps plays more of them

    async def open_store(self, folder: Path) -> Store:
        return fresh()[1]


FREE = Item("p", status="READY", due_at=1000, body=BODY)
LEASED = Item("p", status="RUNNING", owner="me", lease_until=500, epoch=3, body=BODY)
RELEASED = {"owner": None, "lease_until": None}

# What, what is there before, the write, units: as in test_costs.py of the backend.
COSTS = [
    ("start", None, Put(FREE, ABSENT), 2),
    ("start, leased", None, Put(LEASED, ABSENT), 1),
    ("claim", FREE, Update(partition="p", owner="me", lease_until=9, add_epoch=1, load=True), 1),
    ("claim from the dead", LEASED, Update(partition="p", owner="you", lease_until=900), 1),
    ("checkpoint", LEASED, Put(Item("p", "j#1", owner="me", epoch=3, body=BODY), ABSENT), 1),
    ("renew", LEASED, Update(partition="p", when=OwnerIs("me", 3), lease_until=999), 1),
    ("release", LEASED, Update(partition="p", **RELEASED), 1),
    ("suspend until", LEASED, Update(partition="p", **RELEASED, due_at=2000), 2),
    ("later", FREE, Update(partition="p", due_at=2000), 3),
    ("not due any more", FREE, Update(partition="p", due_at=None), 2),
    ("shrink", Item("p", "j", body=NOISE), Put(Item("p", "j")), 3),
    ("grow", Item("p", "j"), Put(Item("p", "j", body=NOISE)), 3),
    ("delete", Item("p", "j", body=NOISE), Delete("p", "j"), 3),
    ("delete nothing", None, Delete("p", "j"), 1),
]


@pytest.mark.parametrize(("name", "before", "write", "units"), COSTS, ids=[each[0] for each in COSTS])
async def test_a_write_costs(name, before, write, units):
    _, store = fresh()
    if before is not None:
        await store.write(Put(before))
    store.reset()
    await store.write(write)
    assert store.meter.total == Usage(requests=1, write_units=units)


async def test_several_writes_cost_twice():
    _, store = fresh()
    await store.write(Put(Item("p", "j", body=BODY)), Put(Item("q", due_at=5)))
    assert store.meter.usage == {"TransactWriteItems": Usage(requests=1, write_units=2 + 2 * 2)}


async def test_a_refused_write_costs_what_is_there():
    _, store = fresh()
    await store.write(Put(Item("p", body=NOISE)))
    store.reset()
    with pytest.raises(Refused):
        await store.write(Put(Item("p"), ABSENT))
    assert store.meter.total == Usage(requests=1, write_units=3)
    with pytest.raises(Refused):
        await store.write(Put(Item("p"), ABSENT), Put(Item("q", body=NOISE[:1_400])))
    assert store.meter.usage["TransactWriteItems"] == Usage(requests=1, write_units=2 * 3 + 2 * 2)


async def test_reads_cost_by_4_kb():
    _, store = fresh()
    await store.write(Put(Item("p", body=Random(1).randbytes(8_200))))
    for number in range(3):
        await store.write(Put(Item("p", f"j{number}", body=NOISE[:2_100])))
    store.reset()
    await store.get("p")
    await store.get("nothing")
    await store.query("p", prefix="j")
    await store.scan("")
    assert store.meter.usage == {
        "GetItem": Usage(requests=2, read_units=3 + 1),
        "Query": Usage(requests=1, read_units=2),
        "Scan": Usage(requests=1, read_units=4),
    }


async def test_whoever_watches_is_not_counted():
    _, store = fresh()
    with uncounted():
        await store.get("p")
    assert store.meter.total == Usage()
    await store.get("p")
    assert store.meter.total == Usage(requests=1, read_units=1)


async def test_large_bodies_are_counted_as_objects():
    home, store = fresh(inline_bytes=100)
    assert home.blobs is not None
    await home.blobs.put("d" * 64, b"x", NOW)
    assert [piece async for piece in home.blobs.read("d" * 64)] == [b"x"]
    assert (store.blob_use.writes, store.blob_use.reads, home.inline_bytes) == (1, 1, 100)
    await store.write(Put(Item("p", body=BLOB_MARK + b"d" * 64 + b"-1")))
    assert store.meter.total.write_units == 1


async def test_stores_of_several_processes_share_their_counters_and_what_they_know():
    data = MemoryData()
    _, store = metered(open_memory_home(data=data))
    await store.write(Put(Item("p", "j", body=NOISE)))
    other = store.beside(open_memory_home(data=data).store)
    await other.write(Delete("p", "j"))
    assert store.meter.usage["DeleteItem"] == other.meter.usage["DeleteItem"] == Usage(requests=1, write_units=3)


async def test_what_is_due_is_known():
    _, store = fresh()
    await store.write(Put(Item("p", due_at=NOW)))
    assert not store.is_due(NOW - 1)
    assert store.is_due(NOW)
    await store.write(Update(partition="p", due_at=None))
    assert not store.is_due(NOW)


async def test_the_trial_home_has_no_more_than_the_one_on_aws():
    home, _ = fresh()
    assert (home.transactions, home.sequencer) == (None, None)


async def test_what_the_stream_covers_enters_the_index_if_it_is_still_to_be_done_a_minute_later():
    now = NOW

    def clock() -> int:
        return now

    async def units(write) -> float:
        store.meter.reset()
        await store.write(write)
        return store.meter.total.write_units

    _, store = fresh(settings=Settings(cover="stream"), now=clock)
    for done_after_ms, wanted in ((59_999, [1, 1]), (60_000, [1, 1 + 2 + 1])):
        name = f"wf#a#{done_after_ms}"
        start = await units(Put(Item(name, due_at=now)))
        now += done_after_ms
        assert [start, await units(Update(partition=name, due_at=None))] == wanted
    assert await units(Put(Item("wf#a#later", due_at=now + 60_001))) == 2, "times to come are in the index"
    assert await units(Update(partition="wf#a#later", due_at=now)) == 1 + 1, "it leaves the index"
    assert await units(Update(partition="wf#a#later", status="RUNNING")) == 1
    assert await units(Update(partition="wf#a#later", due_at=None)) == 1


async def test_a_head_that_is_listed_costs_a_unit_when_it_comes_and_when_it_is_deleted():
    _, store = fresh(settings=Settings(listing="index"))
    for write, wanted in (
        (Put(Item("wf#a#1")), 2),
        (Update(partition="wf#a#1", status="DONE"), 1),
        (Put(Item("wf#a#1")), 1 + 2),
        (Delete("wf#a#1", "@"), 2),
        (Put(Item("stream#a")), 1),
        (Put(Item("wf#a#1", "j#1")), 1),
    ):
        store.meter.reset()
        await store.write(write)
        assert store.meter.total.write_units == wanted
