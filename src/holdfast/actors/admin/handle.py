"""The outside of actors: look at them, end them, and repair those that have stopped at a message."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

import msgspec
from msgspec import Raw, Struct
from msgspec.structs import replace

from holdfast import ids
from holdfast.actors.address import Address
from holdfast.actors.admin import repair
from holdfast.actors.calling.dispatch import request_reply
from holdfast.actors.record import (
    DELETE_METHOD,
    DEPARTURE_PREFIX,
    PARKED_PREFIX,
    PARTITION_PREFIX,
    ActorRecord,
    Call,
    actor_of,
    decode_call,
    decode_departure,
    decode_parked,
    decode_record,
    describe_partition,
    key_of,
    partition_of,
)
from holdfast.actors.turn.applied import is_noted
from holdfast.actors.turn.replies import look_for_reply
from holdfast.clock import moment
from holdfast.codec.stored import stored
from holdfast.coordination.inbox import INBOX_PREFIX
from holdfast.coordination.schedule import Schedule
from holdfast.duration import Duration
from holdfast.errors import NotFound, StoreUnusable
from holdfast.failure import ErrorRecord
from holdfast.items import Item
from holdfast.paging import Pages

if TYPE_CHECKING:
    from holdfast.kernel.runtime import Connect


class Envelope(Struct, frozen=True):
    """What messages and events say of themselves. The rest is ignored."""

    id: str
    method: str = ""
    event: str = ""


decode_envelope: Final = stored(Envelope, "what an actor has sent")

DELETE_TIMEOUT: Final = "90s"
"""Longer than what hangs may run before it is cancelled, unless its class says otherwise."""


class TimerStatus(Struct, frozen=True):
    """A timer that is set."""

    name: str
    due_at: datetime
    schedule: Schedule | None


class Message(Struct, frozen=True):
    """A message that waits for an actor, or is parked. ``place`` names it to ``unpark`` and ``discard``."""

    place: str
    id: str
    method: str
    args: Any
    sent_at: datetime
    not_before: datetime | None
    attempts: int = 0
    error: ErrorRecord | None = None
    parked_at: datetime | None = None


class Departing(Struct, frozen=True):
    """What an actor has sent and its owner has not deleted yet: ``what`` is the method or the event, ``to`` the
    receiver. It is delivered, or will be as soon as the actor is worked on and the store answers.
    """

    place: str
    to: str
    what: str
    id: str


class ActorStatus(Struct, frozen=True):
    """An actor as the store holds it. ``version`` grows with every commit, also over a deletion. ``damaged`` says what
    is wrong if its record cannot be read; then neither its state nor its timers are known.
    """

    actor: str
    key: str
    status: str
    version: int
    state: Any
    timers: tuple[TimerStatus, ...]
    owner: str | None
    halted_by: str | None
    damaged: str | None = None


class ActorHandle:
    """One actor, from outside. Nothing here runs its code."""

    def __init__(self, actor: str, key: str, connect: Connect) -> None:
        self.actor = actor
        self.key = key
        self._partition = partition_of(actor, key)
        self._connect = connect

    async def status(self) -> ActorStatus:
        """The actor as it is stored. Raises ``NotFound``."""
        return status_of(await self._head())

    async def request_status(self, request_id: str) -> str:
        """What became of a request: ``completed``, ``failed``, ``waiting``, ``parked``, or ``unknown``."""
        runtime = self._connect()
        reply = await look_for_reply(self._partition, request_id, runtime)
        if reply is not None and reply.parked:
            return "parked"
        if reply is not None:
            return "completed" if reply.error is None else "failed"
        head = await self._head()
        if head.body and await is_noted(request_id, decode_record(head.body), self._partition, runtime.home.store):
            return "completed"
        if any(message.id == request_id for message in await self.messages()):
            return "waiting"
        return "parked" if any(message.id == request_id for message in await self.parked()) else "unknown"

    async def messages(self, *, limit: int | None = None) -> tuple[Message, ...]:
        """The messages that wait, in order: all of them, or the first ``limit``."""
        failures = decode_record(head.body).failures if (head := await self._head()).body else {}
        found: list[Message] = []
        for item in await self._items(INBOX_PREFIX, limit):
            known = failures.get(item.sort)
            failed, error = (0, None) if known is None else (max(known.failed, known.started), known.error)
            found.append(_message(item.sort, decode_call(item.body), failed, error))
        return tuple(found)

    async def parked(self, *, limit: int | None = None) -> tuple[Message, ...]:
        """The messages that were parked because their attempts failed: all of them, or the first ``limit``."""
        return tuple(parked_message(item) for item in await self._items(PARKED_PREFIX, limit))

    async def departures(self, *, limit: int | None = None) -> tuple[Departing, ...]:
        """What it has sent and may not have been delivered yet, in order: all of it, or the first ``limit``. There is
        something only where writes are billed.
        """
        return tuple(_departing(item) for item in await self._items(DEPARTURE_PREFIX, limit))

    async def unpark(self, place: str, *, args: Any = None) -> None:
        """Put a parked message back into the inbox, with other arguments if given. Raises ``NotFound``."""
        await repair.unpark(self._partition, place, args, self._connect())

    async def discard(self, place: str) -> None:
        """Drop a parked message, for good. Raises ``NotFound``."""
        await repair.discard(self._partition, place, self._connect())

    async def resume(self) -> None:
        """Let an actor that has halted try its message again. Raises ``InvalidState`` if it has not halted."""
        await repair.resume(self._partition, self._connect())

    async def park(self) -> None:
        """Park the message that an actor has halted at, and let it go on with the next. Raises ``InvalidState`` if
        it has not halted.
        """
        await repair.park(self._partition, self._connect())

    async def delete(self, *, timeout: Duration | None = DELETE_TIMEOUT) -> None:
        """End the actor: its state and timers go, in its turn behind the calls before. A later call begins it again,
        at a higher version: no stale writer can bring the old state back.

        Raises ``NotFound``, ``InvalidState`` if it has halted, and ``WaitTimeout``: it may still be deleted then.
        """
        runtime = self._connect()
        await self._head()
        kind = runtime.registry.actors.get(self.actor)
        if kind is None:
            raise NotFound(
                f"no actor is called {self.actor!r} here; there are: {', '.join(runtime.registry.actors) or 'none'}"
            )
        now = runtime.clock.now_ms()
        call = Call(id=ids.new_ordered_id(now), method=DELETE_METHOD, args=Raw(b"{}"), replies=True, sent_at=now)
        await request_reply(Address(kind, self.key, timeout=timeout), call, runtime)

    async def _head(self) -> Item:
        head = await self._connect().home.store.get(self._partition)
        if head is None:
            raise NotFound(f"there is no {describe_partition(self._partition)}")
        return head

    async def _items(self, prefix: str, limit: int | None) -> list[Item]:
        store = self._connect().home.store
        found: list[Item] = []
        async for page in Pages(lambda after: store.query(self._partition, prefix=prefix, after=after)):
            found += page.items
            if limit is not None and len(found) >= limit:
                break
        return found[:limit]


def status_of(head: Item) -> ActorStatus:
    """What an actor's head says. One that cannot be read is shown with its key: it must not hide the others."""
    record, damaged = ActorRecord(schema=1, state=Raw(b"null")), None
    try:
        record = decode_record(head.body) if head.body else record
    except StoreUnusable as error:
        damaged = str(error)
    return ActorStatus(
        actor=actor_of(head.partition),
        key=key_of(head.partition),
        status=head.status,
        version=head.epoch,
        state=msgspec.json.decode(bytes(record.state)),
        timers=_timers_in(record),
        owner=head.owner,
        halted_by=record.halted_by,
        damaged=damaged,
    )


def timers_of(head: Item) -> tuple[TimerStatus, ...]:
    """The timers that are set in an actor, by name; none are known of one that cannot be read."""
    try:
        return _timers_in(decode_record(head.body)) if head.body else ()
    except StoreUnusable:
        return ()


def _timers_in(record: ActorRecord) -> tuple[TimerStatus, ...]:
    timers = sorted(record.timers.items())
    return tuple(TimerStatus(name, moment(each.due_at), each.schedule) for name, each in timers)


def parked_message(item: Item) -> Message:
    """A parked message, as it is stored."""
    parked = decode_parked(item.body)
    failure = parked.failure
    message = _message(item.sort, parked.call, max(failure.failed, failure.started), failure.error)
    return replace(message, parked_at=moment(parked.parked_at))


def _departing(item: Item) -> Departing:
    departure = decode_departure(item.body)
    said = decode_envelope(bytes(departure.body))
    is_actor = departure.to.startswith(PARTITION_PREFIX)
    to = describe_partition(departure.to) if is_actor else departure.to.replace("#", " ")
    return Departing(item.sort, to, said.method or said.event, said.id)


def _message(place: str, call: Call, attempts: int, error: ErrorRecord | None) -> Message:
    not_before = moment(call.not_before) if call.not_before else None
    args = msgspec.json.decode(bytes(call.args))
    return Message(place, call.id, call.method, args, moment(call.sent_at), not_before, attempts, error)
