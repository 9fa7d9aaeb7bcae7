"""Publishing: an event into the outbox, with the commit it belongs to (G5)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from msgspec import Raw, Struct

from holdfast import ids
from holdfast.actors.scope import Turn
from holdfast.codec.typed import codec_for, encode_untyped
from holdfast.errors import ConfigurationError, InvalidInput, Refused
from holdfast.items import Put, Write, one_per_place
from holdfast.kernel.loop import running_activation
from holdfast.kernel.persist import write_for_caller
from holdfast.kernel.program import AnyEffect, Arrival, Effect
from holdfast.kernel.unit import Unit, current_unit
from holdfast.messaging import outbox
from holdfast.messaging.outbox import Entry, entry_writes
from holdfast.ports import SqlCursor

if TYPE_CHECKING:
    from collections.abc import Callable

    from holdfast.actors.access import ActorAccess
    from holdfast.actors.operation import Performer
    from holdfast.kernel.requests import Operation


T = TypeVar("T")


class Outbox:
    """An app's outbox, for whoever publishes."""

    def __init__(self, app: str, connect: Callable[[], ActorAccess]) -> None:
        self.partition = outbox.partition_of(app)
        self._connect = connect

    async def publish(self, event: Any, id: str | None = None) -> None:
        """Publish an event: durable when this returns, or with the commit of the handler that is running."""
        activation = running_activation()
        if activation is not None:
            name, data = _encoded(event)
            fingerprint = ids.fingerprint(name.encode() + b"\0" + data)
            command = Publish(self, name, data, id)
            decode = codec_for(type(None)).decode
            await activation.request("publish", name, command, fingerprint=fingerprint, decode=decode)
            return
        if current_unit.get() is not None:
            if not self._connect().has_outbox:
                await self.create()
            self.add(event, id)
            return
        name, data = _encoded(event)
        await self.put(self.entry(name, data, id, None))

    def add(self, event: Any, id: str | None = None) -> None:
        """Publish an event with the commit that is being made: inside a transactional step, ``app.transact`` or a
        handler. Raises ``InvalidInput`` elsewhere.
        """
        unit = current_unit.get()
        if unit is None:
            raise InvalidInput(
                "outbox.add publishes with a commit, and none is being made here: use it in a transactional step, in "
                "app.transact or in a handler; elsewhere `await app.publish(event)`"
            )
        access = self._connect()
        name, data = _encoded(event)
        entry = self.entry(name, data, id, unit)
        sender = unit.partition if isinstance(unit, Turn) else None
        stamp = entry.place or access.sender.next_stamp()
        label = access.sender.name if sender is None else ids.fingerprint(sender.encode())
        unit.add(self.partition, *entry_writes(self.partition, stamp, label, entry, access.clock.now_ms()))

    async def put(self, entry: Entry) -> None:
        """Write an event by itself."""
        access = self._connect()
        writes = entry_writes(
            self.partition, access.sender.next_stamp(), access.sender.name, entry, access.clock.now_ms()
        )
        try:
            await write_for_caller(access.home.store, *writes, ours=lambda there: there is not None)
        except Refused:  # there is no outbox yet
            await self.create()
            await write_for_caller(access.home.store, *writes, ours=lambda there: there is not None)
        access.home.doorbell.ring(self.partition)
        if access.host is not None:
            access.host.look(self.partition)

    async def transact(self, work: Callable[[SqlCursor], T]) -> T:
        """Run SQL and publish what it adds, in one transaction."""
        access = self._connect()
        if access.home.transactions is None:
            raise ConfigurationError(f"app.transact needs a SQLite home, not {access.home.url}")
        await self.create()

        def in_unit(cursor: SqlCursor) -> tuple[Sequence[Write], tuple[T, Unit]]:
            unit = Unit((), None, access.clock)
            with unit:
                result = work(cursor)
            return one_per_place(unit.writes), (result, unit)

        result, unit = await access.home.transactions.transact(in_unit)
        for partition in unit.rings:
            access.home.doorbell.ring(partition)
            if access.host is not None:
                access.host.look(partition)
        return result

    async def create(self) -> None:
        """See to it that there is an outbox."""
        access = self._connect()
        store = access.home.store
        if await store.get(self.partition) is None:
            await write_for_caller(store, outbox.head(self.partition), ours=lambda _there: True)
        access.has_outbox = True

    async def subscribe(self, wanted: Sequence[tuple[str, str]]) -> None:
        """See to it that these consumers get these events, whichever process carries them."""
        store = self._connect().home.store
        await self.create()
        page = await store.query(self.partition, prefix=outbox.SUBSCRIPTION_PREFIX)
        known = {item.sort for item in page.items}
        for event, consumer in wanted:
            item = outbox.subscription(self.partition, event, consumer)
            if item.sort not in known:
                await write_for_caller(store, Put(item), ours=lambda _there: True)

    def entry(self, name: str, data: bytes, id: str | None, unit: Unit | None) -> Entry:
        """The entry of an event that ``unit`` publishes, if one does."""
        access = self._connect()
        now = access.clock.now_ms()
        if id is None and isinstance(unit, Turn):  # an actor's events are handled in their order
            stamp = unit.next_stamp()
            label = f"{ids.fingerprint(unit.partition.encode())}/{stamp}"
            return Entry(event=name, id=label, group=unit.partition, data=Raw(data), place=stamp, published_at=now)
        given = id if id is not None else ids.new_ordered_id(now)
        return Entry(event=name, id=given, group=given, data=Raw(data), published_at=now)


class Publish(Struct, frozen=True):
    """Publish from a workflow body: recorded, under an id that follows from the operation."""

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
        await self.outbox.put(entry)
        return live.done(operation, b"null")


def name_of(event: Any) -> str:
    """The name of a class of events."""
    if not isinstance(event, type):
        raise ConfigurationError(f"events are told apart by their class: {event!r} is none")
    return event.__name__


def _encoded(event: Any) -> tuple[str, bytes]:
    name = name_of(type(event))
    return name, encode_untyped(event, f"event {name}", 256 * 1024)
