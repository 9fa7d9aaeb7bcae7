"""What ``units`` and the metering store work out is what DynamoDB itself reports for the same writes and reads."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import suppress
from random import Random
from typing import Any

import pytest

from holdfast.backends.aws import DynamoStore, Usage
from holdfast.cost.metering import MeteringStore
from holdfast.errors import Refused
from holdfast.items import ABSENT, ALWAYS, EXISTS, HEAD, Delete, Item, Put, RevisionIs, Update, Write

pytestmark = pytest.mark.gentle("it counts requests and units")

OpenStore = Callable[..., Awaitable[DynamoStore]]


def a_write(random: Random, partition: str) -> Write:
    sort = random.choice([HEAD, HEAD, "j#1", "j#2"])
    body = random.randbytes(random.choice([0, 50, 900, 1_100, 3_000, 5_000, 9_000]))
    leased: dict[str, Any] = {"owner": "me", "lease_until": random.randint(1, 9)} if random.random() < 0.4 else {}
    due: dict[str, Any] = {"due_at": random.choice([None, 100, 200])}
    when: Any = random.choice([ALWAYS, ALWAYS, ABSENT, EXISTS, RevisionIs(1)])
    match random.randrange(5):
        case 0 | 1:
            return Put(Item(partition, sort, revision=random.randrange(3), body=body, **leased, **due), when)
        case 2:
            return Update(partition=partition, sort=sort, body=body, add_revision=1, **due)
        case 3:
            lease = random.choice([{"owner": None, "lease_until": None}, {"owner": "me", "lease_until": 50}])
            return Update(partition=partition, sort=sort, **lease, load=True, status="RUNNING")
        case _:
            return Delete(partition, sort, when)


def some_mail(random: Random, number: int) -> list[Write]:
    """Two messages come for a head, and leave it with the next call: small ones in the head, large ones as items."""
    head = Update(partition="mail", add_revision=1, due_at=random.choice([100, 200]))
    places = [f"i#{number // 2}#{at}" for at in range(2)]
    if number % 2:
        return [head, *(Delete("mail", each, EXISTS) for each in places)]
    bodies = [random.randbytes(random.choice([10, 300, 900])) for _ in places]
    return [*(Put(Item("mail", each, body=body), ABSENT) for each, body in zip(places, bodies, strict=True)), head]


async def play(store: MeteringStore, random: Random) -> None:
    partitions = [f"p{number}" for number in range(4)]
    # The emulator says that a query costs nothing which finds nothing. DynamoDB's smallest charge is half a unit.
    await store.write(Put(Item("never empty", body=random.randbytes(5_000))))
    await store.write(Put(Item("mail", body=b"head"), ABSENT))
    for number in range(120):
        count = random.choice([1, 1, 1, 2, 3])
        with suppress(Refused):
            await store.write(*(a_write(random, each) for each in random.sample(partitions, count)))
        await store.write(*some_mail(random, number))
        if random.random() < 0.2:
            await store.get(random.choice(partitions), random.choice([HEAD, "j#1"]))
        if random.random() < 0.1:
            await store.query("never empty")


@pytest.mark.parametrize("seed", range(3))
async def test_the_units_worked_out_are_those_reported(seed: int, open_store: OpenStore) -> None:
    inner = await open_store()
    store = MeteringStore(inner)
    await play(store, Random(seed))
    worked_out, reported = store.meter.usage, inner.meter.usage
    assert store.meter.total.requests > 120
    assert worked_out.keys() == reported.keys()
    transactions, told = worked_out.pop("TransactWriteItems"), reported.pop("TransactWriteItems")
    assert worked_out == reported
    assert transactions.requests == told.requests
    # The emulator does not double every transaction, and of a refused one it tells the sizes of few items: ours is
    # what the documentation says.
    assert told.write_units <= transactions.write_units <= 1.3 * told.write_units
    await store.close()


async def test_a_sweep_that_finds_nothing_is_metered_apart(open_store: OpenStore) -> None:
    inner = await open_store()
    store = MeteringStore(inner)
    await store.due(1000)
    assert store.meter.total == Usage()
    assert store.sweeps.total.requests == inner.meter.total.requests == 1
    assert inner.meter.total.read_units <= store.sweeps.total.read_units == 0.5
    await store.close()
