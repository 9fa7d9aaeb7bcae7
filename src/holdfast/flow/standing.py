"""How queues stand: their numbers, who has a slot, who waits and since when. It reads, and changes nothing."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from holdfast import keys
from holdfast.clock import moment
from holdfast.errors import NotFound
from holdfast.flow.changing import settings_in
from holdfast.flow.choose import ALL, KEY, Rules, Waiting
from holdfast.flow.rates import NEVER_BEFORE, Rate, free_at
from holdfast.flow.record import (
    PLACE_PREFIX,
    SETTINGS,
    SHARDS,
    GateRecord,
    Queueing,
    Slot,
    app_of,
    count_by_key,
    decode_gate,
    name_of,
    shards_of,
    since_of,
    waiting_of,
)
from holdfast.paging import items

if TYPE_CHECKING:
    from holdfast.flow.record import Declared
    from holdfast.flow.settings import Settings
    from holdfast.items import Item
    from holdfast.kernel.runtime import Runtime

MOST_COUNTED: Final = 10_000
"""The most waiting executions that are counted where one queue is looked at: each is read."""

MOST_KEYS: Final = 20
"""The most keys of which a queue tells how many wait: those with the most."""

PAUSED: Final = "pause"
LIMIT: Final = "limit"
LIMIT_PER_KEY: Final = "limit_per_key"
RATE: Final = "rate"
RATE_PER_KEY: Final = "rate_per_key"
TURN: Final = "turn"
"""What keeps an execution waiting. ``TURN``: nothing but those before it, or that no worker decides."""


class QueueSlot(Struct, frozen=True, kw_only=True):
    """A slot of a queue: the execution that has it, under which key, and since when."""

    workflow: str
    id: str
    key: str
    since: datetime


class QueueWaiter(Struct, frozen=True, kw_only=True):
    """An execution that waits in a queue since a time. With ``ahead_ms`` of head start it goes before others."""

    workflow: str
    id: str
    key: str
    since: datetime
    ahead_ms: int = 0


class QueueKey(Struct, frozen=True, kw_only=True):
    """How many executions of a key have a slot, and how many wait."""

    key: str
    held: int
    waiting: int


class QueueStatus(Struct, frozen=True, kw_only=True):
    """A queue as its home holds it. ``limit`` to ``most_waiting`` are the numbers that hold now.

    ``waiting`` is how many executions wait; where they are more than ``MOST_COUNTED``, as the queue has counted them
    last. ``oldest`` is since when the first of them waits, and ``next_token`` when its rate lets the next one begin.
    ``decided_by`` is the process that decides, ``None`` if none does now. With ``purging`` an order to end what waits
    is being carried out. ``first`` are those that wait for longest, ``keys`` those of which most wait.
    """

    app: str
    name: str
    paused: bool
    limit: int
    limit_per_key: int | None
    rate: Rate | None
    rate_per_key: Rate | None
    most_waiting: int | None
    waiting: int
    oldest: datetime | None
    next_token: datetime | None
    decided_by: str | None
    purging: bool
    slots: tuple[QueueSlot, ...]
    first: tuple[QueueWaiter, ...] = ()
    keys: tuple[QueueKey, ...] = ()


class QueueWait(Struct, frozen=True, kw_only=True):
    """Why an execution waits in a queue. ``held_by`` is what keeps it: ``pause``, ``limit``, ``limit_per_key``,
    ``rate``, ``rate_per_key``, or ``turn`` if nothing does but those before it. ``ahead`` is how many of its key are
    before it, of at most ``MOST_COUNTED`` that are counted. ``until`` is when the rate lets the next one begin.
    """

    queue: str
    key: str
    since: datetime
    held_by: tuple[str, ...]
    ahead: int
    waiting: int
    limit: int
    held: int
    limit_per_key: int | None
    held_of_key: int
    until: datetime | None = None


class Standing(Struct, frozen=True):
    """What the head and the settings of a queue say, and the numbers that hold."""

    gate: str
    head: Item | None
    record: GateRecord
    settings: Settings
    rules: Rules
    most_waiting: int | None

    def token_at(self, key: str | None, now: int) -> int | None:
        """When the rate lets the next one begin, of a key or of all (milliseconds); ``None`` if at once."""
        rules, arrivals = self.rules, self.record.arrivals
        name, rate = (ALL, rules.rate) if key is None else (KEY + key, rules.rate_per_key)
        if rate is None:
            return None
        at = -(-free_at(rate, arrivals.get(name, NEVER_BEFORE)) // 1000)
        return at if at > now else None


async def standing_of(runtime: Runtime, gate: str, declared: Declared | None) -> Standing:
    """How a queue stands, apart from who waits. The numbers are those of the worker that decides, whose code may be
    another version. If none does, they are those that are ``declared`` here, or without that code those by which it was
    decided last. Raises ``NotFound`` if neither is there.
    """
    store = runtime.home.store
    head, changed = await asyncio.gather(store.get(gate), store.get(gate, SETTINGS))
    if head is None and declared is None:
        raise NotFound(f"there is no queue {name_of(gate)!r} of app {app_of(gate)!r} here")
    record = GateRecord() if head is None else decode_gate(head.body)
    settings = settings_in(changed)
    if declared is None or _is_decided_by_others(head, record, declared):
        return Standing(gate, head, record, settings, settings.over(record.rules()), record.most_waiting)
    rules, most_waiting = settings.over(declared.rules), declared.most_waiting
    return Standing(gate, head, record, settings, rules, most_waiting)


def _is_decided_by_others(head: Item | None, record: GateRecord, declared: Declared) -> bool:
    """Whether a worker decides whose code declares other numbers."""
    if head is None or head.owner is None:
        return False
    return record != record.with_numbers(declared.rules, declared.most_waiting)


async def status_of(
    runtime: Runtime, gate: str, declared: Declared | None, *, key: str | None = None, first: int = 0,
    most_counted: int = MOST_COUNTED,
) -> QueueStatus:  # fmt: skip
    """How a queue stands: all of it, or what is of one key. Raises ``NotFound``."""
    standing, places = await asyncio.gather(standing_of(runtime, gate, declared), _places(runtime, gate, most_counted))
    record, rules = standing.record, standing.rules
    waiting = sorted((each for each in places if key in (None, each.key)), key=lambda each: each.sort)
    held = {name: slot for name, slot in record.held.items() if key in (None, slot.key)}
    count = max(len(waiting), record.waiting) if key is None and len(places) >= most_counted else len(waiting)
    token_at = standing.token_at(key, runtime.clock.now_ms())
    head = standing.head
    return QueueStatus(
        app=app_of(gate),
        name=name_of(gate),
        paused=rules.paused,
        limit=rules.limit,
        limit_per_key=rules.limit_per_key,
        rate=rules.rate,
        rate_per_key=rules.rate_per_key,
        most_waiting=standing.most_waiting,
        waiting=count,
        oldest=moment(since_of(waiting[0].sort)) if waiting else None,
        next_token=None if token_at is None else moment(token_at),
        decided_by=None if head is None else head.owner,
        purging=any(not each.done for each in standing.settings.purges),
        slots=tuple(_slot(name, slot) for name, slot in held.items()),
        first=tuple(_waiter(each) for each in waiting[:first]),
        keys=_by_key(count_by_key(held), waiting),
    )


async def why_it_waits(runtime: Runtime, partition: str, queued: Queueing, declared: Declared | None) -> QueueWait:
    """Why an execution waits. Raises ``NotFound`` if its queue is not there."""
    standing, places = await asyncio.gather(
        standing_of(runtime, queued.gate, declared), _places(runtime, queued.gate, MOST_COUNTED)
    )
    record, rules, now = standing.record, standing.rules, runtime.clock.now_ms()
    of_key = count_by_key(record.held).get(queued.key, 0)
    own = (queued.since - queued.ahead_ms, partition)
    before = (each for each in places if each.key == queued.key and (each.rank, each.partition) < own)
    tokens = {RATE: standing.token_at(None, now), RATE_PER_KEY: standing.token_at(queued.key, now)}
    held_by = {
        PAUSED: rules.paused,
        LIMIT: len(record.held) >= rules.limit,
        LIMIT_PER_KEY: rules.limit_per_key is not None and of_key >= rules.limit_per_key,
        **{name: at is not None for name, at in tokens.items()},
    }
    until = max((at for at in tokens.values() if at is not None), default=None)
    return QueueWait(
        queue=name_of(queued.gate),
        key=queued.key,
        since=moment(queued.since),
        held_by=tuple(name for name, holds in held_by.items() if holds) or (TURN,),
        ahead=sum(1 for _ in before),
        waiting=max(len(places), record.waiting) if len(places) >= MOST_COUNTED else len(places),
        limit=rules.limit,
        held=len(record.held),
        limit_per_key=rules.limit_per_key,
        held_of_key=of_key,
        until=None if until is None else moment(until),
    )


async def _places(runtime: Runtime, gate: str, most: int) -> list[Waiting]:
    """The places of a queue, of each shard the first ones: so they are even if there are more than ``most``."""
    found = await asyncio.gather(*(_first(runtime, shard, -(-most // SHARDS)) for shard in shards_of(gate)))
    return [each for some in found for each in some]


async def _first(runtime: Runtime, shard: str, most: int) -> list[Waiting]:
    found: list[Waiting] = []
    async for item in items(runtime.home.store, shard, prefix=PLACE_PREFIX):
        found.append(waiting_of(item))
        if len(found) >= most:
            break
    return found


def _slot(execution: str, slot: Slot) -> QueueSlot:
    workflow, id = _names(execution)
    return QueueSlot(workflow=workflow, id=id, key=slot.key, since=moment(slot.since))


def _waiter(waiting: Waiting) -> QueueWaiter:
    workflow, id = _names(waiting.partition)
    since = since_of(waiting.sort)
    return QueueWaiter(workflow=workflow, id=id, key=waiting.key, since=moment(since), ahead_ms=since - waiting.rank)


def _names(execution: str) -> tuple[str, str]:
    workflow, _, id = execution.removeprefix(keys.EXECUTIONS).partition("#")
    return workflow, id


def _by_key(held: Mapping[str, int], places: Sequence[Waiting]) -> tuple[QueueKey, ...]:
    waiting = Counter(each.key for each in places)
    names = sorted(waiting.keys() | held.keys(), key=lambda key: (-waiting[key], -held.get(key, 0), key))
    return tuple(QueueKey(key=each, held=held.get(each, 0), waiting=waiting[each]) for each in names[:MOST_KEYS])
