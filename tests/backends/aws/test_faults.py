"""Whatever happens on the way to DynamoDB and back, a write is applied once, and its caller hears the truth."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Awaitable, Callable
from random import Random
from typing import Any

import pytest
from tests.backends.aws.faults import APPLIED, FAULTS, NOT_APPLIED, FaultyConnection, refused, sometimes, then_none

from holdfast.backends.aws import Transport, sending
from holdfast.backends.aws.connection import THREADS
from holdfast.backends.aws.store import DynamoStore
from holdfast.errors import ConfigurationError, InvalidInput, PayloadTooLarge, Refused, StoreUnavailable, StoreUnusable
from holdfast.items import (
    ABSENT,
    ALWAYS,
    EXISTS,
    HEAD,
    UNOWNED,
    Delete,
    EpochIs,
    Item,
    OwnerIs,
    Put,
    RevisionIs,
    Update,
    Write,
)

pytestmark = pytest.mark.gentle("it has faults of its own, and counts attempts")

OpenStore = Callable[..., Awaitable[DynamoStore]]

STORM_WRITES = 64
STORM_SHARE = 0.4
EACH_FAULT_AT_LEAST = 3


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sending, "FIRST_PAUSE_SECONDS", 0.0)


def faulty(open_store: OpenStore, next_fault: Callable[[str], str | None], **options: Any) -> Any:
    connections: list[FaultyConnection] = []

    def wrap(connection: Any) -> FaultyConnection:
        connections.append(FaultyConnection(connection, next_fault))
        return connections[0]

    async def make() -> tuple[DynamoStore, FaultyConnection]:
        store = await open_store(wrap, **options)
        return store, connections[0]

    return make()


WRITES: dict[str, tuple[Item | None, list[Write], Item | None]] = {
    # what is there, what is written, what is there then
    "put": (None, [Put(Item("p", body=b"new"), ABSENT)], Item("p", body=b"new")),
    "put in place": (Item("p"), [Put(Item("p", body=b"new"), ALWAYS)], Item("p", body=b"new")),
    "update": (Item("p"), [Update(partition="p", add_revision=1)], Item("p", revision=1)),
    "claim": (
        Item("p"),
        [Update(partition="p", when=UNOWNED, owner="me", lease_until=9, add_epoch=1)],
        Item("p", owner="me", lease_until=9, epoch=1),
    ),
    "delete": (Item("p"), [Delete("p", HEAD, ALWAYS)], None),
    "several": (
        Item("p"),
        [Update(partition="p", when=RevisionIs(0), add_revision=1), Put(Item("p", "j/1"), ABSENT)],
        Item("p", revision=1),
    ),
    "several deletes": (Item("p"), [Delete("p", HEAD, EXISTS), Put(Item("p", "j/1"), ABSENT)], None),
    "deletes only": (Item("p"), [Delete("p", HEAD, EXISTS), Delete("p", "j/1")], None),
}


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("name", WRITES)
async def test_a_write_that_fails_twice_is_applied_once(name: str, fault: str, open_store: OpenStore) -> None:
    before, writes, after = WRITES[name]
    faults = iter([None, fault, fault])
    store, wire = await faulty(open_store, lambda _operation: next(faults, None))
    await store.write(Put(before) if before else Delete("p", HEAD))
    assert list(await store.write(*writes)) == [None] * len(writes)
    assert await store.get("p") == after
    assert wire.suffered == {fault: 2}
    assert store.meter.total.requests == 1 + 3 + 1
    await store.close()


@pytest.mark.parametrize("fault", APPLIED)
async def test_a_claim_whose_answer_was_lost_still_loads_the_item(fault: str, open_store: OpenStore) -> None:
    store, _ = await faulty(open_store, then_none(None, fault, fault))
    await store.write(Put(Item("p", body=b"state")))
    claim = Update(partition="p", when=UNOWNED, owner="me", lease_until=9, add_epoch=1, load=True)
    assert list(await store.write(claim)) == [Item("p", owner="me", lease_until=9, epoch=1, body=b"state")]
    assert await store.get("p") == Item("p", owner="me", lease_until=9, epoch=1, body=b"state")
    await store.close()


@pytest.mark.parametrize("fault", FAULTS)
async def test_a_refusal_stays_a_refusal(fault: str, open_store: OpenStore) -> None:
    there = Item("p", revision=3)
    store, _ = await faulty(open_store, then_none(None, fault))
    await store.write(Put(there))
    with pytest.raises((Refused, StoreUnavailable)) as caught:
        await store.write(Update(partition="p", when=RevisionIs(2), status="never"))
    if fault in NOT_APPLIED and fault != "failed before":
        assert isinstance(caught.value, Refused)
    # Of what was refused behind a lost answer nobody can tell: the caller sends it again, and hears.
    with pytest.raises(Refused) as again:
        await store.write(Update(partition="p", when=RevisionIs(2), status="never"))
    assert again.value.item == there == await store.get("p")
    await store.close()


async def test_a_write_overtaken_while_its_answer_was_lost_is_unknown_not_refused(open_store: OpenStore) -> None:
    store, wire = await faulty(open_store, then_none(None, "no answer in time"))
    other = beside(store, wire.connection)
    wire.meanwhile = lambda: other.write(Update(partition="p", add_revision=1))
    await store.write(Put(Item("p")))
    with pytest.raises(StoreUnavailable, match="changed since"):
        await store.write(Update(partition="p", when=RevisionIs(0), status="mine", add_revision=1))
    assert await store.get("p") == Item("p", revision=2, status="mine"), "it had been applied"
    await store.close()


async def test_a_delete_that_may_have_been_its_own_is_unknown(open_store: OpenStore) -> None:
    store, _ = await faulty(open_store, then_none(None, "connection reset"))
    await store.write(Put(Item("p")))
    with pytest.raises(StoreUnavailable):
        await store.write(Delete("p", HEAD, EXISTS))
    assert await store.get("p") is None
    await store.close()


@pytest.mark.parametrize(("fault", "told"), [("throttled", "nothing of it was applied"), ("failed after", "may not")])
async def test_patience_ends(fault: str, told: str, open_store: OpenStore, monkeypatch: pytest.MonkeyPatch) -> None:
    store, wire = await faulty(open_store, lambda _operation: fault)
    monkeypatch.setattr(sending, "FIRST_PAUSE_SECONDS", 0.001)
    store._transport._patience_seconds = 0.2
    with pytest.raises(StoreUnavailable, match=told):
        await store.write(Put(Item("p")))
    assert len(wire.attempts) >= 2
    assert store.meter.total.requests == len(wire.attempts), "every attempt is counted"
    await store.close()


@pytest.mark.parametrize(
    ("code", "told"),
    [("AccessDeniedException", "role needs"), ("ExpiredTokenException", "refuses"), ("ValidationException", "request")],
)
async def test_what_time_does_not_heal_is_told_at_once(code: str, told: str, open_store: OpenStore) -> None:
    class Refusing:
        attempts = 0

        async def send(self, operation: str, parameters: Any) -> Any:
            self.attempts += 1
            raise refused(code)(operation)

        def close(self) -> None:
            pass

    refusing = Refusing()
    store = await open_store(lambda _connection: refusing)
    with pytest.raises(StoreUnusable, match=told):
        await store.write(Put(Item("p")))
    assert refusing.attempts == 1
    await store.close()


async def test_a_call_over_the_limits_of_a_transaction_is_refused_before_it_is_sent(open_store: OpenStore) -> None:
    store = await open_store()
    with pytest.raises(InvalidInput, match="101 items at once"):
        await store.write(*(Put(Item("p", f"{number}")) for number in range(101)))
    with pytest.raises(PayloadTooLarge, match="at once"):
        await store.write(*(Put(Item("p", f"{number}", body=noise(350_000))) for number in range(12)))
    assert store.meter.total.requests == 0
    await store.close()


async def test_a_mistake_of_the_setup_is_told_at_once() -> None:
    class Unconfigured:
        async def send(self, operation: str, parameters: Any) -> Any:
            raise ConfigurationError("the home on AWS needs botocore")

        def close(self) -> None:
            pass

    store = DynamoStore(Transport(Unconfigured(), "t-holdfast", random=Random(1)), "t-holdfast")
    with pytest.raises(ConfigurationError, match="botocore"):
        await store.get("p")
    assert store.meter.total.requests == 1


async def test_only_so_many_requests_are_under_way_and_the_others_wait_without_losing_time() -> None:
    class Slow:
        under_way = most = 0

        async def send(self, operation: str, parameters: Any) -> Any:
            self.under_way += 1
            self.most = max(self.most, self.under_way)
            for _ in range(5):
                await asyncio.sleep(0)
            self.under_way -= 1
            return {}

        def close(self) -> None:
            pass

    slow = Slow()
    store = DynamoStore(Transport(slow, "t-holdfast", random=Random(1)), "t-holdfast")
    await asyncio.gather(*(store.write(Put(Item(f"p{number}"))) for number in range(100)))
    assert slow.most == THREADS
    assert store.meter.total.requests == 100


async def test_an_item_that_grows_too_large_is_told_by_its_size(open_store: OpenStore) -> None:
    store = await open_store()
    with pytest.raises(PayloadTooLarge, match="400,0.. bytes"):
        await store.write(Put(Item("p", body=noise(400_000))))
    with pytest.raises(PayloadTooLarge):
        await store.write(Update(partition="p", body=noise(400_000)))
    assert store.meter.total.requests == 0, "before anything is sent"
    await store.close()


def noise(size: int) -> bytes:
    """What zlib cannot make smaller."""
    return Random(5).randbytes(size)


async def test_a_storm_of_faults_loses_and_doubles_nothing(open_store: OpenStore) -> None:
    """Two stores raise counters, each raise with a mark of its own, while 40 % of all attempts fail."""
    one, first = await faulty(open_store, sometimes(1, STORM_SHARE))
    second = FaultyConnection(first.connection, sometimes(2, STORM_SHARE))
    two = beside(one, second)

    async def raise_counter(store: DynamoStore, counter: str, mark: str) -> None:
        marked = Put(Item(counter, f"m/{mark}"), ABSENT)
        while True:
            try:
                there = await store.get(counter)
                when = ABSENT if there is None else EpochIs(there.epoch)
                new = Item(counter, epoch=1 if there is None else there.epoch + 1)
                await store.write(Put(new, when), marked)
                return
            except Refused as refusal:
                if refusal.index == 1:
                    return  # it was applied before, and its answer was lost
            except StoreUnavailable:
                pass

    tasks = [(store, f"p{number % 8}", f"{number}") for number, store in enumerate([one, two] * (STORM_WRITES // 2))]
    await asyncio.gather(*(raise_counter(*task) for task in tasks))
    for counter in {counter for _, counter, _ in tasks}:
        head = await one.get(counter)
        marks = (await one.query(counter, prefix="m/")).items
        assert head is not None
        assert head.epoch == len(marks) == sum(task[1] == counter for task in tasks)
    suffered = first.suffered + second.suffered
    assert all(suffered[fault] >= EACH_FAULT_AT_LEAST for fault in FAULTS), suffered
    await one.close()


def beside(store: DynamoStore, connection: Any) -> DynamoStore:
    """Another process's store on the same table."""
    return DynamoStore(Transport(connection, store.table, random=Random(8)), store.table)


async def test_owners_fence_each_other_through_lost_answers(open_store: OpenStore) -> None:
    """Every second answer is lost; epochs go up by one for each claim, and a stale owner's write is refused."""
    turn = iter(range(10_000))
    store, wire = await faulty(open_store, lambda _operation: "failed after" if next(turn) % 2 else None)
    await store.write(Put(Item("p")))
    for epoch in range(1, 21):
        owner = f"owner{epoch}"
        when = UNOWNED if epoch == 1 else OwnerIs(f"owner{epoch - 1}", epoch - 1)
        (claimed,) = await store.write(
            Update(partition="p", when=when, owner=owner, lease_until=9, add_epoch=1, load=True)
        )
        assert claimed == Item("p", owner=owner, lease_until=9, epoch=epoch)
        with pytest.raises((Refused, StoreUnavailable)):
            await store.write(Update(partition="p", when=OwnerIs("owner0", 0), status="stale"))
    assert await store.get("p") == Item("p", owner="owner20", lease_until=9, epoch=20)
    assert wire.suffered["failed after"] >= 20
    await store.close()


async def test_a_refusal_that_nobody_waits_for_any_more_disturbs_nobody(
    open_store: OpenStore, caplog: pytest.LogCaptureFixture
) -> None:
    store = await open_store()
    await store.write(Put(Item("p")))
    abandoned = asyncio.ensure_future(store.write(Put(Item("p", body=b"never"), ABSENT)))
    await asyncio.sleep(0)
    abandoned.cancel()
    await store.close()
    del abandoned
    gc.collect()
    assert caplog.records == []
