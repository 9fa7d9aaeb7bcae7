"""Publishing: events are written to the outbox with the commit that they belong to (G5)."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeVar

from msgspec import Raw, Struct
from msgspec.structs import replace

from holdfast import ids
from holdfast.actors.mailbox.post import wake_actor
from holdfast.actors.scope import Turn
from holdfast.codec.faults import too_deep
from holdfast.codec.typed import codec_for, encode_untyped
from holdfast.errors import (
    ConfigurationError,
    InvalidInput,
    IOOutsideStep,
    NestedDurableCall,
    Refused,
    StoreUnavailable,
)
from holdfast.functions import is_generator, told
from holdfast.items import Delete, Item, Put, Update, Write, one_per_place
from holdfast.kernel.runtime import Connect, Declares
from holdfast.kernel.unit import Unit, current_unit
from holdfast.messaging import bus_queue, outbox
from holdfast.messaging.listing import WaitingPage, list_waiting
from holdfast.messaging.outbox import Entry, check_id, encode_entry, entry_sort, entry_writes, is_hidden
from holdfast.persist import write_for_caller
from holdfast.ports import SqlCursor
from holdfast.replay.loop import running_activation
from holdfast.replay.program import AnyEffect, Arrival, Effect
from holdfast.tracing import here
from holdfast.workflows.scope import step_scope

if TYPE_CHECKING:
    from collections.abc import Callable

    from holdfast.actors.calling.from_workflow import Performer
    from holdfast.kernel.runtime import Runtime
    from holdfast.replay.requests import Operation


T = TypeVar("T")

MOST_TRIES: Final = 3
"""The outbox is missing once, and the event is there already once."""


class Outbox:
    """An app's outbox, as publishers see it."""

    def __init__(self, app: str, connect: Connect, limit_bytes: int) -> None:
        self.app = app
        self.partition = outbox.partition_of(app)
        self.bus_partition = bus_queue.partition_of(app)
        self._connect = connect
        self._limit_bytes = limit_bytes
        self._seen_by: Runtime | None = None

    @property
    def is_known(self) -> bool:
        """Whether the outbox is known to exist, since the app was opened."""
        return self._seen_by is self._connect()

    async def publish(self, event: Any, id: str | None = None) -> None:
        """Publish an event. It is durable when this returns, or with the commit of the running handler (G5)."""
        activation = running_activation()
        if activation is not None:
            name, data = self._encoded(event, id)
            fingerprint = ids.fingerprint(name.encode() + b"\0" + data)
            command = Publish(self, name, data, id)
            decode = codec_for(type(None)).decode
            await activation.request("publish", name, command, fingerprint=fingerprint, decode=decode)
            return
        if (unit := current_unit.get()) is not None:
            self._refuse_elsewhere(unit)
            if not self.is_known:
                with unit.waiting():
                    await self.create()
            self.add(event, id)
            return
        if id is None and step_scope.get() is not None:
            raise NestedDurableCall(
                "a step may run more than once, and would publish its event as often: give it an id of its own, "
                "publish(event, id=...); or publish from the body, or by app.outbox.add in a transactional step"
            )
        name, data = self._encoded(event, id)
        await self.put(self.entry(name, data, id, None), comes_again=id is not None)

    def add(self, event: Any, id: str | None = None) -> None:
        """Publish an event with the current commit: inside a transactional step, ``app.transact`` or a handler.

        Raises ``InvalidInput`` elsewhere.
        """
        unit = current_unit.get()
        if unit is None:
            raise InvalidInput(
                "outbox.add publishes with a commit, and there is none here: use it in a transactional step, in "
                "app.transact or in a handler; elsewhere `await app.publish(event)`"
            )
        self._refuse_elsewhere(unit)
        runtime = self._connect()
        name, data = self._encoded(event, id)
        entry = self.entry(name, data, id, unit)
        stamp, sender = _place_of(entry, unit, runtime, departs=unit.departs(self.partition))
        if unit.departs(self.partition):
            unit.depart(
                outbox.part_for(self.app, entry.group, runtime.home), entry_sort(stamp, sender), encode_entry(entry)
            )
            return
        unit.add(self.partition, *entry_writes(self.partition, stamp, sender, entry, runtime.clock.now_ms()))

    async def put(self, entry: Entry, *, comes_again: bool = True) -> None:
        """Write an event in a transaction of its own. One that ``comes_again`` under its id is recognised for a limited
        time, and so never waits without a wake-up (``Update.whole``). Raises ``StoreUnavailable``.
        """
        runtime = self._connect()
        store = runtime.home.store
        # What stands alone, and comes once, meets in one head for each process: there it shares writes.
        group = entry.group if comes_again else runtime.sender.name
        partition = outbox.part_for(self.app, group, runtime.home)
        put, due = self.writes_of(entry, partition)
        writes: tuple[Write, ...] = (put, replace(due, wakes=True, whole=comes_again))
        for _ in range(MOST_TRIES):
            try:
                await write_for_caller(store, *writes, ours=lambda _there: False)
                break
            except Refused as refused:
                if refused.item is None:  # there is no outbox yet
                    await self.create()
                    await write_for_caller(store, outbox.head(partition), ours=lambda _there: True)
                else:  # an attempt without an answer has put it there, perhaps without waking
                    writes = (due,)
        else:
            raise StoreUnavailable(
                f"the outbox of app {self.app!r} refused {MOST_TRIES} times: nothing was published; publish it again"
            )
        wake_actor(partition, runtime)

    def entry_of(self, event: Any, id: str | None) -> Entry:
        """The entry of an event that stands alone, for a caller that writes it itself. Raises as ``publish`` does."""
        name, data = self._encoded(event, id)
        return self.entry(name, data, id, None)

    def writes_of(self, entry: Entry, partition: str | None = None) -> tuple[Put, Update]:
        """The writes that put an entry into this outbox, or a shard, which must exist, and make the relay due."""
        sender, now = self._connect().sender, self._connect().clock.now_ms()
        return entry_writes(partition or self.partition, sender.next_stamp(), sender.name, entry, now)

    async def transact(self, work: Callable[[SqlCursor], T]) -> T:
        """Run SQL and publish the events it adds, in one transaction. Returns what ``work`` returns.

        Raises ``InvalidInput`` unless ``work`` is a plain function: nothing can be awaited under the file's write lock.
        """
        _check_plain(work)
        if running_activation() is not None:
            raise IOOutsideStep("a transaction in a workflow body: make it a step, with @app.transaction")
        runtime = self._connect()
        if runtime.home.transactions is None:
            raise ConfigurationError(f"app.transact needs a SQLite home, not {runtime.home.url}")
        await self.create()

        def in_unit(cursor: SqlCursor) -> tuple[Sequence[Write], tuple[T, Unit]]:
            unit = Unit((), None, runtime.clock, runtime.home)
            with unit:
                result = work(cursor)
                _refuse_awaitable(result, work)  # inside, so that nothing commits
            return one_per_place(unit.writes), (result, unit)

        result, unit = await runtime.home.transactions.transact(in_unit)
        for partition in unit.to_wake:
            wake_actor(partition, runtime)
        return result

    async def create(self) -> None:
        """Create the outbox, unless it exists."""
        runtime = self._connect()
        store = runtime.home.store
        if await store.get(self.partition) is None:
            await write_for_caller(store, outbox.head(self.partition), ours=lambda _there: True)
        self._seen_by = runtime

    async def waiting(self, *, after: str | None = None, limit: int = 100) -> WaitingPage:
        """List the events that wait for delivery, in their order, a page at a time."""
        return await list_waiting(self._connect().home, self.app, after=after, limit=limit)

    async def unsubscribe(self, consumer: str) -> None:
        """Deliver no more events to a consumer."""
        runtime = self._connect()
        name = outbox.consumer_name(self.app, consumer)
        for item in await self._subscriptions():
            if outbox.subscribed(item)[1] == name:
                await write_for_caller(runtime.home.store, Delete(item.partition, item.sort), ours=lambda _there: True)

    async def resend(self, id: str | None = None) -> int:
        """Send the events again that the bus refused for good, or the one with this id. Returns how many."""
        runtime = self._connect()
        chosen = await self._unroutable(id)
        for sort, refused in chosen:
            await bus_queue.put_back(runtime.home.store, self.bus_partition, sort, refused, runtime.clock.now_ms())
        if chosen:
            wake_actor(self.bus_partition, runtime)
        return len(chosen)

    async def discard(self, id: str) -> int:
        """Discard the event with this id that the bus refused for good. Consumers of this app are not affected.
        Returns how many there were.
        """
        chosen = await self._unroutable(id)
        for sort, _ in chosen:
            gone = Delete(self.bus_partition, sort)
            await write_for_caller(self._connect().home.store, gone, ours=lambda _there: True)
        return len(chosen)

    async def _unroutable(self, id: str | None) -> Sequence[tuple[str, bus_queue.Unroutable]]:
        found = await bus_queue.unroutable(self._connect().home.store, self.bus_partition)
        return [each for each in found if id is None or each[1].entry.id == id]

    async def origin(self) -> str | None:
        """What identifies events of this app in this home on a bus; ``None`` if none are published there."""
        head = await self._connect().home.store.get(self.bus_partition)
        return None if head is None else bus_queue.decode_head(head.body).origin

    async def accept(self, event: str, data: bytes, id: str, trace: str = "") -> None:
        """Write an event from a bus, for the consumers of this app. It is durable when this returns."""
        now = self._connect().clock.now_ms()
        entry = Entry(event=event, id=id, group=id, data=Raw(data), published_at=now, foreign=True, trace=trace)
        await self.put(entry)

    async def subscribe(self, wanted: Sequence[tuple[str, str]], for_bus: Sequence[str] = ()) -> None:
        """Subscribe these consumers, and the bus, to these events, whichever process delivers them."""
        store = self._connect().home.store
        await self.create()
        if for_bus:
            if await store.get(self.bus_partition) is None:
                queue = bus_queue.head(self.bus_partition, ids.new_id())
                await write_for_caller(store, queue, ours=lambda _there: True)
            bus = outbox.consumer_name(self.app, bus_queue.BUS)
            wanted = [*wanted, *((event, bus) for event in for_bus)]
        known = {item.sort for item in await self._subscriptions()}
        for event, consumer in wanted:
            item = outbox.subscription(self.partition, event, consumer)
            if item.sort not in known:
                await write_for_caller(store, Put(item), ours=lambda _there: True)

    async def _subscriptions(self) -> Sequence[Item]:
        return await outbox.subscriptions(self._connect().home.store, self.partition)

    def entry(self, name: str, data: bytes, id: str | None, unit: Unit | None) -> Entry:
        """The entry of an event, published by ``unit`` if there is one. An actor's events are handled in their order.

        Those of a consumer or a tick are not: their places would have to be remembered for every event.
        """
        runtime = self._connect()
        now = runtime.clock.now_ms()
        if id is None and isinstance(unit, Turn) and not is_hidden(unit.partition):
            stamp = unit.next_stamp()
            label = f"{ids.fingerprint(unit.partition.encode())}/{stamp}"
            entry = Entry(event=name, id=label, group=unit.partition, data=Raw(data), place=stamp, published_at=now)
            return replace(entry, trace=here())
        given = id if id is not None else ids.new_ordered_id(now)
        return Entry(event=name, id=given, group=given, data=Raw(data), published_at=now, trace=here())

    def _refuse_elsewhere(self, unit: Unit) -> None:
        unit.refuse_elsewhere(self._connect().home, f"the outbox of app {self.app!r}")

    def _encoded(self, event: Any, id: str | None) -> tuple[str, bytes]:
        """The name of an event's class, and the event's JSON. Checks the id, too."""
        if id is not None:
            check_id(id)
        name = name_of(type(event))
        data = encode_untyped(event, f"event {name}", self._limit_bytes)
        if outbox.nests_too_deep(data):
            raise too_deep(f"event {name}, as its consumers are given it,")
        return name, data


class Publishes(Declares, Protocol):
    """An app, as the functions that declare what it publishes and consumes see it."""

    @property
    def outbox(self) -> Outbox: ...


def outbox_of(app: Declares) -> Outbox:
    """Where an app publishes: a part of one does where the whole does."""
    return Outbox(app.registry.app, app.runtime, app.limit_bytes)


def _place_of(entry: Entry, unit: Unit, runtime: Runtime, *, departs: bool) -> tuple[int, str]:
    """The stamp and the sender of an event that ``unit`` publishes: its place in the outbox."""
    if entry.place:
        return entry.place, ids.fingerprint(entry.group.encode())
    if departs and isinstance(unit, Turn):
        return unit.next_stamp(), ids.fingerprint(unit.partition.encode())
    return runtime.sender.next_stamp(), runtime.sender.name


class Publish(Struct, frozen=True):
    """Publish from a workflow body. The operation is recorded, and the event's id is derived from it."""

    outbox: Outbox
    event: str
    data: bytes
    id: str | None

    def effect(self, operation: Operation, live: Performer, /) -> AnyEffect:
        return Effect(operation.id, lambda: self._perform(operation, live))

    def withdrawn(self, _operation: Operation, _live: Performer, /) -> Sequence[AnyEffect]:
        return ()

    async def _perform(self, operation: Operation, live: Performer) -> Arrival:
        entry = self.outbox.entry(self.event, self.data, self.id or live.operation_key(operation.id), None)
        await self.outbox.put(replace(entry, trace=live.traceparent()))
        return live.done(operation, b"null")


def name_of(event: Any) -> str:
    """The name of a class of events."""
    if not isinstance(event, type):
        raise ConfigurationError(
            f"an event must be identified by its class, as in @app.consumer(OrderPlaced), got {event!r}"
        )
    return event.__name__


def _check_plain(work: Any) -> None:
    if not callable(work) or inspect.iscoroutinefunction(work) or is_generator(work):
        raise InvalidInput(_not_plain(work))


def _refuse_awaitable(result: Any, work: Any) -> None:
    """Refuse a coroutine that a lambda or an object returned: it would never run."""
    if inspect.isawaitable(result):
        if inspect.iscoroutine(result):
            result.close()
        raise InvalidInput(_not_plain(work))


def _not_plain(work: Any) -> str:
    return (
        f"app.transact runs a plain def inside the store's transaction, where nothing can be awaited; it got "
        f"{told(work)}. Write it as a def that takes the cursor, and await before or after it"
    )
