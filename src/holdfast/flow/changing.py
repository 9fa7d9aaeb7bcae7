"""Looking at a queue, and changing its numbers while it works."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

from msgspec import UNSET, Struct
from msgspec.structs import replace

from holdfast import keys
from holdfast.clock import moment
from holdfast.duration import milliseconds
from holdfast.errors import Refused
from holdfast.flow.record import PLACE_PREFIX, SETTINGS, GateRecord, Slot, create, decode_gate, make_due, shards_of
from holdfast.flow.settings import AS_DECLARED, Settings, StoredRate, decode_settings, encode_settings
from holdfast.items import ABSENT, Item, Put, RevisionIs
from holdfast.kernel.wake import wake
from holdfast.paging import items
from holdfast.persist import write_for_caller

if TYPE_CHECKING:
    from holdfast.flow.choose import Rules
    from holdfast.flow.rates import Rate
    from holdfast.kernel.runtime import Runtime

MOST_COUNTED: Final = 10_000
"""The most waiting executions that are counted: each is read."""


class QueueSlot(Struct, frozen=True, kw_only=True):
    """A slot of a queue: the execution that has it, under which key, and since when."""

    workflow: str
    id: str
    key: str
    since: datetime


class QueueStatus(Struct, frozen=True, kw_only=True):
    """A queue as its home holds it. ``limit`` to ``rate_per_key`` are the numbers that hold now. ``waiting`` is how
    many executions wait, counted up to ``MOST_COUNTED``.
    """

    paused: bool
    limit: int
    limit_per_key: int | None
    rate: Rate | None
    rate_per_key: Rate | None
    waiting: int
    slots: tuple[QueueSlot, ...]


async def status_of(runtime: Runtime, partition: str, declared: Rules) -> QueueStatus:
    """How a queue stands."""
    store = runtime.home.store
    head, changed = await store.get(partition), await store.get(partition, SETTINGS)
    record = GateRecord() if head is None else decode_gate(head.body)
    rules = _settings_in(changed).over(declared)
    return QueueStatus(
        paused=rules.paused,
        limit=rules.limit,
        limit_per_key=rules.limit_per_key,
        rate=rules.rate,
        rate_per_key=rules.rate_per_key,
        waiting=await _count(runtime, partition),
        slots=tuple(_shown(each, slot) for each, slot in record.held.items()),
    )


async def change(runtime: Runtime, partition: str, numbers: Mapping[str, Any]) -> None:
    """Change settings of a queue, by their names. A change by another process in between is kept, and this one made
    on top of it.
    """
    await create(partition, runtime.home)
    while True:
        there = await runtime.home.store.get(partition, SETTINGS)
        body = encode_settings(replace(_settings_in(there), **numbers))
        revision = 1 if there is None else there.revision + 1
        item = Item(partition, SETTINGS, revision=revision, body=body)
        put = Put(item, ABSENT if there is None else RevisionIs(there.revision))
        try:
            await _write(runtime, put, body)
        except Refused:
            continue
        wake(partition, runtime.home, runtime.host)
        return


async def _count(runtime: Runtime, partition: str) -> int:
    """The number of places. One that was just admitted may be among them."""
    count = 0
    for shard in shards_of(partition):
        async for _ in items(runtime.home.store, shard, prefix=PLACE_PREFIX):
            count += 1
            if count >= MOST_COUNTED:
                return count
    return count


def stored_rate(rate: Rate | None) -> StoredRate | None:
    """A rate as settings hold it."""
    return None if rate is None else StoredRate(rate.count, milliseconds(rate.per), rate.burst)


AS_IT_IS_DECLARED: Final[Mapping[str, Any]] = dict.fromkeys(("limit", "limit_per_key", "rate", "rate_per_key"), UNSET)
"""The numbers without any change."""


async def _write(runtime: Runtime, put: Put, body: bytes) -> None:
    """Write settings and have the gate look. Raises ``Refused`` if others have changed them meanwhile."""

    def ours(there: Item | None) -> bool:
        return there is not None and there.revision == put.item.revision and there.body == body

    await write_for_caller(runtime.home.store, put, make_due(put.item.partition, runtime.clock.now_ms()), ours=ours)


def _settings_in(item: Item | None) -> Settings:
    return AS_DECLARED if item is None else decode_settings(item.body)


def _shown(execution: str, slot: Slot) -> QueueSlot:
    workflow, _, id = execution.removeprefix(keys.EXECUTIONS).partition("#")
    return QueueSlot(workflow=workflow, id=id, key=slot.key, since=moment(slot.since))
