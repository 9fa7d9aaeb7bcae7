"""The named points at which the process of the relay dies, deliveries that arrive twice, and bugs to be found.

All of it sits between the relay and the store of one worker; the engine knows nothing of it.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from random import Random
from typing import Final

from msgspec.structs import replace
from tests.torture.points import Fault, TorturedStore, tell

from holdfast.backends.sqlite import open_sqlite_home
from holdfast.backends.sqlite.store import SqliteStore
from holdfast.coordination.inbox import INBOX_PREFIX
from holdfast.errors import Refused
from holdfast.items import ABSENT, EXISTS, HEAD, Delete, Item, Put, Update, Write
from holdfast.messaging import relay
from holdfast.messaging.consumers import EventHandler
from holdfast.messaging.outbox import ENTRY_PREFIX, PARTITION_PREFIX, is_hidden
from holdfast.ports import Home, Store

POINTS: Final = ("claim:after", "deliver:after", "mark:before", "mark:after", "settle:before", "settle:after")

PLANTS: Final = ("mark first", "no memory")

Apply = Callable[..., Awaitable[Sequence[Item | None]]]

LATEST_REPEAT_SECONDS: Final = 0.5
MOST_TRIES: Final = 100


def kind_of(writes: Sequence[Write]) -> str:
    """What the relay does by a write; empty if it is not one of the relay's."""
    first = writes[0]
    match first:
        case Put(item=Item(partition=partition, sort=sort)) if sort.startswith(INBOX_PREFIX) and is_hidden(partition):
            return "deliver"
        case Update(partition=partition, sort=sort) if sort == HEAD and partition.startswith(PARTITION_PREFIX):
            if any(isinstance(each, Delete) and each.sort.startswith(ENTRY_PREFIX) for each in writes[1:]):
                return "mark"
            if first.owner is None:
                return "settle"
            return "claim" if isinstance(first.owner, str) else ""
        case _:
            return ""


class RelayStore(TorturedStore):
    """Kills the process at its point, and picks some deliveries that the parent repeats, later."""

    def __init__(self, store: SqliteStore, faults: Sequence[Fault], random: Random, doubled: float) -> None:
        super().__init__(store, faults)
        self._apply = _observed(self._apply)
        self._random = random
        self._doubled = doubled

    def write(self, *writes: Write) -> Awaitable[Sequence[Item | None]]:
        """See ``Store.write``."""
        if (kind := kind_of(writes)) != "deliver":
            return self._at(kind, partial(self._apply, *writes))
        again = [
            each.item
            for each in writes
            if isinstance(each, Put) and each.item.sort != HEAD and self._random.random() < self._doubled
        ]
        return self._at(kind, partial(self._deliver, writes, again))

    async def _deliver(self, writes: Sequence[Write], again: Sequence[Item]) -> Sequence[Item | None]:
        """Announce the repeats only now: what is not delivered yet may not overtake what came before it."""
        written = await self._apply(*writes)
        for item in again:
            tell(repeat=[item.partition, item.sort, item.body.decode()])
        return written


def _observed(apply: Apply) -> Apply:
    """The same, telling the parent what has been delivered: it must know that before it hears of a repeat."""

    async def observed(*writes: Write) -> Sequence[Item | None]:
        written = await apply(*writes)
        if kind_of(writes) == "deliver":
            for each in writes:
                if isinstance(each, Put) and each.item.sort != HEAD:
                    tell(delivered=[each.item.partition, each.item.sort])
        return written

    return observed


async def deliver_again(store: Store, message: Item, random: Random) -> bool:
    """Deliver as a relay that slept after its read: what another has delivered and marked, and a consumer handled."""
    ring = Update(partition=message.partition, when=EXISTS, due_at=0, add_revision=1)
    for _ in range(MOST_TRIES):
        await asyncio.sleep(random.uniform(0, LATEST_REPEAT_SECONDS))
        with contextlib.suppress(Refused):  # it is still there, or not yet
            await store.write(Put(message, ABSENT), ring)
            return True
    return False


async def open_relay_home(path: str, faults: Sequence[Fault], seed: int, doubled: float) -> Home:
    """The home of one worker."""
    home = await open_sqlite_home(path)
    assert isinstance(home.store, SqliteStore)
    store = RelayStore(home.store, faults, Random(f"{seed} {os.getpid()}"), doubled)
    return replace(home, store=store, transactions=store)


def plant(name: str) -> None:
    """Break the engine of this process: the run must go red."""
    if name == "mark first":
        deliver, mark = relay.deliver, relay.mark
        relay.deliver = _mark_before(deliver, mark)
        relay.mark = _nothing
    elif name == "no memory":
        EventHandler.is_repeat = lambda _self, _place: False  # type: ignore[method-assign]


def _mark_before(deliver, mark):  # type: ignore[no-untyped-def]
    async def broken(messages, runtime, host):  # type: ignore[no-untyped-def]
        held = host.entities[f"{PARTITION_PREFIX}torture"]
        entries = await host.home.store.query(held.partition, prefix=ENTRY_PREFIX, limit=relay.RELAY_BATCH)
        await mark([Delete(held.partition, entry.sort) for entry in entries.items], held, host)
        await deliver(messages, runtime, host)

    return broken


async def _nothing(*_: object) -> None: ...
