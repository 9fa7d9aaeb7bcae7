"""What the store holds of a queue: its head, which says who may run, and the places of those that wait.

The head of an execution is the truth. A *place* is an entry about it, by which the gate of the queue finds it. The
*slots* in the queue's head are permissions: each for one execution, while its head has one epoch. What queues again
adds an epoch, so a permission that was given before is of no use any more.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final, Protocol
from zlib import crc32

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from holdfast import keys
from holdfast.codec.stored import stored
from holdfast.flow.choose import Rules, Waiting
from holdfast.flow.settings import StoredRate, rate_in, stored_rate
from holdfast.items import ABSENT, EXISTS, Delete, Item, Put, Update
from holdfast.persist import write_for_caller
from holdfast.ports import Home

PREFIX: Final = keys.QUEUES
PLACE_PREFIX: Final = "w#"
SETTINGS: Final = "settings"
"""The sort key of the numbers that were changed since the queue was declared."""

SHARDS: Final = 4
"""The partitions of places: one takes 1,000 write units a second on DynamoDB. A change needs a move of what waits."""

QUEUED: Final = "QUEUED"
"""The status of an execution that waits for its slot. No worker claims it without one."""

RESTING: Final = "SUSPENDED"
DECIDING: Final = "RUNNING"

UNSEEN_MS: Final = 60_000
"""After this time a worker sees to it that the gate can find a waiting execution, unless both were written at once."""


class Declared(Protocol):
    """The numbers of a queue as the code has them."""

    @property
    def rules(self) -> Rules: ...

    @property
    def most_waiting(self) -> int | None: ...


class Queueing(Struct, frozen=True, gc=False, omit_defaults=True, kw_only=True):
    """How an execution waits. ``gate`` is the partition of its queue; ``since`` (milliseconds) is when it came, or will
    be due. It waits as long as its head has this ``epoch``; since then it has a slot.
    """

    gate: str
    key: str = ""
    ahead_ms: int = 0
    since: int
    epoch: int


class Slot(Struct, frozen=True, gc=False, array_like=True):
    """A permission: for an execution of this key, while its head has this epoch, since a time (milliseconds)."""

    key: str
    epoch: int
    since: int


class GateRecord(Struct, frozen=True, omit_defaults=True, kw_only=True):
    """The body of a queue's head. ``held`` are the slots by execution, ``arrivals`` the arrival times of its rates.
    ``waiting`` and ``full`` are what the gate has last counted, the others the numbers by which it has decided: who has
    no code sees them here. ``awake``: before it rests it writes that it is so no more, and reads all places after that.
    """

    held: dict[str, Slot] = {}
    arrivals: dict[str, int] = {}
    waiting: int = 0
    full: bool = False
    awake: bool = False
    limit: int = 0
    limit_per_key: int | None = None
    rate: StoredRate | None = None
    rate_per_key: StoredRate | None = None
    most_waiting: int | None = None

    def with_numbers(self, rules: Rules, most_waiting: int | None) -> GateRecord:
        """The same with these numbers."""
        return replace(
            self,
            limit=rules.limit,
            limit_per_key=rules.limit_per_key,
            rate=stored_rate(rules.rate),
            rate_per_key=stored_rate(rules.rate_per_key),
            most_waiting=most_waiting,
        )

    def rules(self) -> Rules:
        """The numbers by which it has decided."""
        return Rules(self.limit, self.limit_per_key, rate_in(self.rate), rate_in(self.rate_per_key))


class Head(Struct, frozen=True, gc=False):
    """What a queue has to know of the head of an execution."""

    queued: Queueing | None = None


class PlaceBody(Struct, frozen=True, gc=False, array_like=True):
    """The body of a place."""

    key: str
    rank: int


encode: Final = msgspec.json.Encoder().encode
decode_gate: Final = stored(GateRecord, "the head of a queue")
_decode_head: Final = stored(Head, "the head of an execution")
_decode_place: Final = stored(PlaceBody, "the place of an execution in a queue")


def partition_of(app: str, queue: str) -> str:
    """The partition of a queue's head."""
    return f"{PREFIX}{app}#{queue}"


def name_of(gate: str) -> str:
    """The queue's name, from the partition of its head."""
    return gate.rpartition("#")[2]


def app_of(gate: str) -> str:
    """The name of the app that has declared a queue, from the partition of its head."""
    return gate.removeprefix(PREFIX).partition("#")[0]


def is_gate(partition: str) -> bool:
    """Whether a partition is that of a queue's head, and not one of its shards."""
    return partition.count("#") == PREFIX.count("#") + 1


def shards_of(gate: str) -> tuple[str, ...]:
    """The partitions with the places of a queue."""
    return tuple(f"{gate}#{number}" for number in range(SHARDS))


def place_put(partition: str, waits: Queueing) -> Put:
    """The write of an execution's place. It may come twice, or late: the execution's head says what it is worth."""
    name = partition.removeprefix(keys.EXECUTIONS)
    return Put(
        Item(
            partition=f"{waits.gate}#{shard_of(partition)}",
            sort=f"{PLACE_PREFIX}{waits.since:015d}#{name}",
            body=encode(PlaceBody(waits.key, waits.since - waits.ahead_ms)),
        )
    )


def place_delete(partition: str, waits: Queueing) -> Delete:
    """The write that deletes an execution's place: it waits no more."""
    item = place_put(partition, waits).item
    return Delete(item.partition, item.sort)


def since_of(place: str) -> int:
    """Since when the execution waits whose place has this sort key (milliseconds)."""
    return int(place[len(PLACE_PREFIX) :].partition("#")[0])


def queueing_in(head: Item) -> Queueing | None:
    """How an execution waits, or has waited."""
    return _decode_head(head.body).queued


def waiting_of(place: Item) -> Waiting:
    """What a place says."""
    body = _decode_place(place.body)
    name = place.sort[len(PLACE_PREFIX) :].partition("#")[2]
    return Waiting(body.rank, place.sort, body.key, keys.EXECUTIONS + name)


def shard_of(partition: str) -> int:
    """The number of the shard that holds the place of an execution."""
    return crc32(partition.removeprefix(keys.EXECUTIONS).encode()) % SHARDS


async def heads_of(partitions: Iterable[str], home: Home) -> Sequence[Item | None]:
    """The heads of executions: all read at once where a read waits for a network, else one after the other, since a
    task for each would take longer than its read.
    """
    if home.reads_are_paid:
        return await asyncio.gather(*map(home.store.get, partitions))
    return [await home.store.get(partition) for partition in partitions]


async def create(gate: str, home: Home, declared: Declared) -> None:
    """Create the head of a queue, unless it is there."""
    body = encode(GateRecord().with_numbers(declared.rules, declared.most_waiting))
    head = Item(partition=gate, status=RESTING, body=body)
    await write_for_caller(home.store, Put(head, ABSENT), ours=lambda there: there is not None)


def make_due(gate: str, now: int) -> Update:
    """The write that has the gate look: a release that has not seen it is refused."""
    return Update(partition=gate, when=EXISTS, due_at=now, add_revision=1)


async def rouse(
    gate: str, home: Home, declared: Declared | None, now: int, is_ours: Callable[[Item], bool] = lambda _head: False
) -> None:
    """See to it that a gate looks at the places that are written by now, whichever process dies: nothing else may be
    due for what waits there. A write of each start would be too much for one item, so one that is awake is left alone,
    and so is one that ``is_ours``: this process decides for it.
    """
    head = await home.store.get(gate)
    if head is None:
        if declared is None:  # a worker with its code creates it, and reads all places then
            return
        await create(gate, home, declared)
    elif head.due_at is not None and (is_ours(head) or decode_gate(head.body).awake):
        return
    await home.store.write(make_due(gate, now))


def count_by_key(held: Mapping[str, Slot]) -> dict[str, int]:
    """The number of slots of each key."""
    counts: dict[str, int] = {}
    for slot in held.values():
        counts[slot.key] = counts.get(slot.key, 0) + 1
    return counts
