"""The outside of actors: look at them, end them, and mend those that have stopped at a message."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

import msgspec
from msgspec import Raw, Struct

from holdfast import ids
from holdfast.actors.mail import ring, tell
from holdfast.actors.perform import DELETE_METHOD
from holdfast.actors.record import (
    DELETED,
    HALTED,
    PARKED_PREFIX,
    PARTITION_PREFIX,
    READY,
    ActorRecord,
    Call,
    Parked,
    TimerRecord,
    actor_of,
    decode_call,
    decode_parked,
    decode_record,
    describe_partition,
    encode,
    key_of,
    partition_of,
)
from holdfast.actors.reference import Reference
from holdfast.actors.requests import find_reply, request_reply
from holdfast.coordination.inbox import INBOX_PREFIX
from holdfast.coordination.schedule import Schedule
from holdfast.errors import InvalidInput, InvalidState, NotFound, Refused
from holdfast.failure import ErrorRecord
from holdfast.items import ABSENT, EXISTS, Delete, Item, Put, StatusIn, Update
from holdfast.kernel.persist import write_for_caller

if TYPE_CHECKING:
    from holdfast.actors.access import ActorAccess

LARGEST_PAGE: Final = 1_000


class TimerStatus(Struct, frozen=True):
    """A timer that is set."""

    name: str
    due_at: datetime
    schedule: Schedule | None


class Message(Struct, frozen=True):
    """A message that waits for an actor, or was set aside. ``place`` names it to ``unpark`` and ``discard``."""

    place: str
    id: str
    method: str
    args: Any
    sent_at: datetime
    not_before: datetime | None
    attempts: int = 0
    error: ErrorRecord | None = None


class ActorStatus(Struct, frozen=True):
    """An actor as the store holds it. ``version`` grows with every commit, also over a deletion."""

    actor: str
    key: str
    status: str
    version: int
    state: Any
    timers: tuple[TimerStatus, ...]
    owner: str | None
    halted_by: str | None


class ActorPage(Struct, frozen=True):
    """Some actors, and where to go on: pass ``after``; ``None`` means that was the end."""

    items: tuple[ActorStatus, ...]
    after: str | None


class ActorHandle:
    """One actor, from outside. Nothing here runs its code."""

    def __init__(self, actor: str, key: str, connect: Callable[[], ActorAccess]) -> None:
        self.actor = actor
        self.key = key
        self._partition = partition_of(actor, key)
        self._connect = connect

    async def status(self) -> ActorStatus:
        """The actor as it is stored. Raises ``NotFound``."""
        return status_of(await self._head())

    async def request_status(self, request_id: str) -> str:
        """What became of a request: ``completed``, ``failed``, ``waiting``, ``parked``, or ``unknown``."""
        access = self._connect()
        reply = await find_reply(self._partition, request_id, access)
        if reply is not None:
            return "completed" if reply.error is None else "failed"
        if any(message.id == request_id for message in await self.messages()):
            return "waiting"
        return "parked" if any(message.id == request_id for message in await self.parked()) else "unknown"

    async def messages(self) -> tuple[Message, ...]:
        """The messages that wait, in order."""
        trouble = decode_record(head.body).trouble if (head := await self._head()).body else {}
        found: list[Message] = []
        for item in await self._items(INBOX_PREFIX):
            known = trouble.get(item.sort)
            failed, error = (0, None) if known is None else (known.failed, known.error)
            found.append(_message(item.sort, decode_call(item.body), failed, error))
        return tuple(found)

    async def parked(self) -> tuple[Message, ...]:
        """The messages that were set aside because their attempts failed."""
        parked = [(item.sort, decode_parked(item.body)) for item in await self._items(PARKED_PREFIX)]
        return tuple(_message(sort, each.call, each.trouble.failed, each.trouble.error) for sort, each in parked)

    async def unpark(self, place: str, *, args: Any = None) -> None:
        """Put a message that was set aside back into the inbox, with other arguments if given. Raises ``NotFound``."""
        access = self._connect()
        item, parked = await self._parked_at(place)
        call = parked.call
        if args is not None:
            kind = access.kinds.get(self.actor)
            method = None if kind is None else kind.methods.get(call.method) or kind.timers.get(call.method)
            if method is None:
                raise InvalidInput(f"{self.actor} has no method {call.method!r} here: its arguments cannot be checked")
            call = msgspec.structs.replace(call, args=Raw(method.signature.parse(msgspec.json.encode(args))))
        call = msgspec.structs.replace(call, not_before=0)
        put = Put(Item(partition=self._partition, sort=access.sender.next_sort(), body=encode(call)), ABSENT)
        rings = ring(self._partition, await self._head(), access)
        try:
            await write_for_caller(
                access.home.store, Delete(item.partition, item.sort, EXISTS), put, rings, ours=lambda _there: False
            )
        except Refused:
            raise NotFound(f"{describe_partition(self._partition)} has no parked message {place!r} any more") from None
        tell(self._partition, access)

    async def discard(self, place: str) -> None:
        """Drop a message that was set aside, for good. Raises ``NotFound``."""
        item, _ = await self._parked_at(place)
        await write_for_caller(self._connect().home.store, Delete(item.partition, item.sort), ours=lambda _there: True)

    async def resume(self) -> None:
        """Let an actor that has halted try its message again. Raises ``InvalidState`` if it has not halted."""
        access, head = self._connect(), await self._head()
        if head.status != HALTED:
            raise InvalidState(f"{describe_partition(self._partition)} is {head.status}, not halted")
        now = access.clock.now_ms()
        update = Update(partition=self._partition, when=StatusIn((HALTED,)), status=READY, due_at=now, add_revision=1)
        with contextlib.suppress(Refused):  # somebody else has just done it, or it is our own write, sent again
            await write_for_caller(access.home.store, update, ours=lambda _there: False)
        tell(self._partition, access)

    async def delete(self) -> None:
        """End the actor: its state and timers go, in its turn behind the calls before. A later call begins anew, at a
        higher version: no stale writer can bring the old state back.
        """
        access = self._connect()
        await self._head()
        kind = access.kinds.get(self.actor)
        if kind is None:
            raise NotFound(f"no actor is called {self.actor!r} here; there are: {', '.join(access.kinds) or 'none'}")
        now = access.clock.now_ms()
        call = Call(id=ids.new_ordered_id(now), method=DELETE_METHOD, args=Raw(b"{}"), replies=True, sent_at=now)
        await request_reply(Reference(kind, self.key, None, None), call, None, access)

    async def _head(self) -> Item:
        head = await self._connect().home.store.get(self._partition)
        if head is None:
            raise NotFound(f"there is no {describe_partition(self._partition)}")
        return head

    async def _items(self, prefix: str) -> list[Item]:
        found: list[Item] = []
        after: str | None = None
        while True:
            page = await self._connect().home.store.query(self._partition, prefix=prefix, after=after)
            found += page.items
            if (after := page.cursor) is None:
                return found

    async def _parked_at(self, place: str) -> tuple[Item, Parked]:
        item = await self._connect().home.store.get(self._partition, place)
        if item is None or not place.startswith(PARKED_PREFIX):
            raise NotFound(f"{describe_partition(self._partition)} has no parked message {place!r}")
        return item, decode_parked(item.body)


async def list_actors(
    access: ActorAccess, actor: str | None, *, status: str | None, after: str | None, limit: int
) -> ActorPage:
    """One page of actors, newest first; deleted ones only if their status is asked for."""
    wanted: Any = limit  # whatever its annotation says
    if not isinstance(wanted, int) or not 1 <= limit <= LARGEST_PAGE:
        raise InvalidInput(f"limit lies between 1 and {LARGEST_PAGE}, not {limit}")
    prefix = PARTITION_PREFIX if actor is None else partition_of(actor, "")
    found: list[ActorStatus] = []
    while True:
        page = await access.home.store.scan(prefix, status=status, after=after, limit=limit - len(found))
        found += [status_of(head) for head in page.items if status is not None or head.status != DELETED]
        after = page.cursor
        if after is None or len(found) >= limit:
            return ActorPage(tuple(found), after)


def status_of(head: Item) -> ActorStatus:
    """What an actor's head says."""
    record = decode_record(head.body) if head.body else ActorRecord(schema=1, state=Raw(b"null"))
    return ActorStatus(
        actor=actor_of(head.partition),
        key=key_of(head.partition),
        status=head.status,
        version=head.epoch,
        state=msgspec.json.decode(bytes(record.state)),
        timers=tuple(_timer(name, each) for name, each in sorted(record.timers.items())),
        owner=head.owner,
        halted_by=record.halted_by,
    )


def _timer(name: str, record: TimerRecord) -> TimerStatus:
    return TimerStatus(name, _time(record.due_at), record.schedule)


def _message(place: str, call: Call, attempts: int, error: ErrorRecord | None) -> Message:
    not_before = _time(call.not_before) if call.not_before else None
    args = msgspec.json.decode(bytes(call.args))
    return Message(place, call.id, call.method, args, _time(call.sent_at), not_before, attempts, error)


def _time(at_ms: int) -> datetime:
    return datetime.fromtimestamp(at_ms / 1000, UTC)
