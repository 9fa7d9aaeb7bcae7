"""Idempotency keys: one record for each key, and the few transitions it knows.

    absent, or past its window ──acquire──▶ RUNNING ──finish──▶ COMPLETED or FAILED: repeats are answered from it
    FREE ──────────────────────acquire──▶ RUNNING ──release─▶ FREE: the same payload may be tried again
    RUNNING, its lease lapsed ─acquire──▶ RUNNING of a newer owner, or PARKED after too many deaths

Each transition is one conditional write, and none deletes the record. An owner's name is new for each attempt, so only
the attempt that holds the key can end it, however late another one wakes up (G3). The lease says how soon somebody
else may try, the window how long an outcome counts: two different times, and safety rests on neither (G9).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final

import msgspec
from msgspec import Raw, Struct
from msgspec.structs import replace

from holdfast import ids
from holdfast.errors import Busy, IdempotencyMismatch, InvalidState, KeyParked, LeaseLost, Refused, StoreUnavailable
from holdfast.failure import ErrorRecord
from holdfast.items import (
    ABSENT,
    AllOf,
    Delete,
    Item,
    LeaseLapsed,
    OwnerIs,
    Put,
    RevisionIs,
    StatusIn,
    Update,
    Write,
)
from holdfast.opened import Opened
from holdfast.persist import write_for_caller

PARTITION_PREFIX: Final = "key#"
FREE: Final = "FREE"
RUNNING: Final = "RUNNING"
COMPLETED: Final = "COMPLETED"
FAILED: Final = "FAILED"
PARKED: Final = "PARKED"

SKEW_MS: Final = 2_000
"""So much longer than its lease a key is left to its owner: two machines seldom agree about the time."""

LONGEST_KEY_BYTES: Final = 1_000
"""DynamoDB takes sort keys of up to 1,024 bytes ("Constraints in Amazon DynamoDB")."""

CONTESTS: Final = 10
"""So often a key may change under the eyes of somebody who wants it before he is told that it is busy."""

NO_RESULT: Final = Raw()


class Record(Struct, frozen=True, omit_defaults=True):
    """What the body of a key's item holds. Times are in milliseconds since the epoch.

    ``by`` is the attempt that wrote it. ``started`` less ``finished`` attempts died without an outcome. ``lost`` says
    why the result of a completed attempt is not here.
    """

    fingerprint: str
    by: str
    started_at: int
    started: int = 1
    finished: int = 0
    result: Raw = NO_RESULT
    error: ErrorRecord | None = None
    lost: str = ""


class Place(Struct, frozen=True):
    """One key, and the fingerprint of the payload it is used with."""

    partition: str
    sort: str
    fingerprint: str


class Terms(Struct, frozen=True):
    """How long an outcome counts, and after how many deaths in one window a key is parked."""

    window_ms: int
    max_crashes: int


class Ticket(Struct, frozen=True):
    """The key is ours: whoever holds this may end the attempt, once."""

    place: Place
    owner: str
    epoch: int
    lease_until: int
    record: Record
    terms: Terms


class Ended(Struct, frozen=True):
    """An outcome is on record, until ``expires_at``: the status is ``COMPLETED`` or ``FAILED``."""

    status: str
    record: Record
    expires_at: int


class Held(Struct, frozen=True):
    """Somebody else is at work, since and until these times unless he extends it."""

    since: int
    until: int


class _Take(Struct, frozen=True):
    write: Put | Update
    ticket: Ticket
    takeover: bool = False


class _Park(Struct, frozen=True):
    write: Update


def place_of(name: str, key: str, fingerprint: str = "") -> Place:
    """Where the record of a key is. Keys of one handler share 256 partitions, by their digest."""
    return Place(f"{PARTITION_PREFIX}{name}/{ids.fingerprint(key.encode())[:2]}", key, fingerprint)


def new_owner(opened: Opened) -> str:
    """A name for the owner of one attempt."""
    return f"{opened.home.owner}!{ids.new_id()}"


async def acquire(
    opened: Opened, place: Place, terms: Terms, *, owner: str, lease_ms: int, seen: Item | None = None
) -> Ticket | Ended | Held:
    """Try to become the owner of a key: one write if it is new, and one if it is known, for the refusal says what is
    there. ``seen`` is what a read has found. Asked again with the same ``owner``, it knows what it has done.

    Raises ``IdempotencyMismatch`` if the key stands for another payload, ``KeyParked``, and ``StoreUnavailable`` when
    the store has not answered for a while; the lease then lapses by itself.
    """
    there = seen
    for _ in range(CONTESTS):
        move = _judge(opened, place, terms, there, owner=owner, until=opened.clock.now_ms() + lease_ms)
        if isinstance(move, Ticket | Ended | Held):
            return move
        try:
            await write_for_caller(opened.home.store, move.write, ours=_nobodys)
        except Refused as refused:
            there = refused.item
            continue
        if isinstance(move, _Park):
            opened.tell("parked", partition=place.partition, place=place.sort)
            raise _parked(place)
        if move.takeover:
            opened.tell("claimed", partition=place.partition, takeover=True)
        return move.ticket
    raise Busy(f"key {place.sort} changed hands {CONTESTS} times while it was asked for; try again")


def _judge(
    opened: Opened, place: Place, terms: Terms, there: Item | None, *, owner: str, until: int
) -> _Take | _Park | Ticket | Ended | Held:
    now = opened.clock.now_ms()
    if there is None or _expired(there, now):
        return _take(place, terms, there, Record(place.fingerprint, owner, now), owner=owner, until=until)
    record = decode(there)
    if there.owner == owner:  # the answer to our own write was lost
        return Ticket(place, owner, there.epoch, there.lease_until or now, record, terms)
    if record.fingerprint != place.fingerprint:
        raise IdempotencyMismatch(
            f"key {place.sort} stands for another payload (digest {record.fingerprint}, now {place.fingerprint}). Use "
            "another key, or the same payload"
        )
    again = replace(record, by=owner, started_at=now, started=record.started + 1)
    match there.status:
        case "COMPLETED" | "FAILED":
            return Ended(there.status, record, there.expires_at or now)
        case "PARKED":
            raise _parked(place)
        case "RUNNING" if _stands(opened, there, now):
            return Held(record.started_at, there.lease_until or now)
        case "RUNNING" if record.started - record.finished >= terms.max_crashes:
            return _Park(_change(place, there.revision, PARKED, None, None, None, replace(record, by=owner)))
        case _:
            return _take(place, terms, there, again, owner=owner, until=until)


def _take(place: Place, terms: Terms, there: Item | None, record: Record, *, owner: str, until: int) -> _Take:
    expires_at = until + terms.window_ms
    if there is not None:
        write = _change(place, there.revision, RUNNING, owner, until, expires_at, record)
        takeover = there.status == RUNNING
        return _Take(replace(write, add_epoch=1), Ticket(place, owner, there.epoch + 1, until, record, terms), takeover)
    item = Item(
        partition=place.partition,
        sort=place.sort,
        # A record may be purged and made anew: what was seen of the old one must not fit the new one.
        revision=ids.new_seed() >> 24,
        status=RUNNING,
        owner=owner,
        lease_until=until,
        epoch=1,
        expires_at=expires_at,
        body=encode(record),
    )
    return _Take(Put(item, ABSENT), Ticket(place, owner, 1, until, record, terms))


def _change(
    place: Place,
    revision: int,
    status: str,
    owner: str | None,
    lease_until: int | None,
    expires_at: int | None,
    record: Record,
) -> Update:
    return Update(
        partition=place.partition,
        sort=place.sort,
        when=RevisionIs(revision),
        status=status,
        owner=owner,
        lease_until=lease_until,
        expires_at=expires_at,
        body=encode(record),
        add_revision=1,
    )


def _stands(opened: Opened, there: Item, now: int) -> bool:
    """Whether the owner may still be at work: his lease has not lapsed, and nobody knows him to be gone."""
    lapsed = there.lease_until is None or there.lease_until < now - SKEW_MS
    return not lapsed and opened.home.doorbell.alive((there.owner or "").rpartition("!")[0])


# ── What the owner does ─────────────────────────────────────────────────────────────────────────────────────────────


async def renew(opened: Opened, ticket: Ticket, lease_ms: int) -> bool:
    """Extend the lease; false if the key is not ours any more. An outage is no reason to think so."""
    until = opened.clock.now_ms() + lease_ms
    place = ticket.place
    extension = Update(
        partition=place.partition,
        sort=place.sort,
        when=AllOf((OwnerIs(ticket.owner, ticket.epoch), LeaseLapsed(until))),
        lease_until=until,
        expires_at=until + ticket.terms.window_ms,
        add_revision=1,
    )
    try:
        await opened.home.store.write(extension)
    except Refused as refused:
        return refused.item is not None and refused.item.owner == ticket.owner
    except StoreUnavailable:
        return True
    return True


async def complete(opened: Opened, ticket: Ticket, result: Raw = NO_RESULT, *, lost: str = "") -> Ended:
    """Record the result, or that there is one which cannot be kept. Raises ``LeaseLost``, ``StoreUnavailable``."""
    return await _settle(opened, ticket, COMPLETED, replace(ticket.record, result=result, lost=lost))


async def fail(opened: Opened, ticket: Ticket, error: ErrorRecord) -> Ended:
    """Record an error that every repeat is to see. Raises ``LeaseLost``, ``StoreUnavailable``."""
    return await _settle(opened, ticket, FAILED, replace(ticket.record, error=error))


async def release(opened: Opened, ticket: Ticket) -> None:
    """Let the same payload be tried again at once; how often it was tried stays. Raises ``LeaseLost``,
    ``StoreUnavailable``.
    """
    await _settle(opened, ticket, FREE, ticket.record)


async def _settle(opened: Opened, ticket: Ticket, status: str, record: Record) -> Ended:
    record = replace(record, finished=record.finished + 1)
    expires_at = opened.clock.now_ms() + ticket.terms.window_ms
    settlement = Update(
        partition=ticket.place.partition,
        sort=ticket.place.sort,
        when=AllOf((OwnerIs(ticket.owner, ticket.epoch), StatusIn((RUNNING,)))),
        status=status,
        owner=None,
        lease_until=None,
        expires_at=expires_at,
        body=encode(record),
        add_revision=1,
    )

    def ours(there: Item | None) -> bool:
        return there is not None and there.status == status and there.body == settlement.body

    try:
        await write_for_caller(opened.home.store, settlement, ours=ours)
    except Refused:
        opened.tell("fenced", partition=ticket.place.partition)
        raise LeaseLost(
            f"the lease of key {ticket.place.sort} ran out and it was taken over: the outcome of this attempt was not "
            "recorded. Ask again with the same key and payload for the one that counts"
        ) from None
    return Ended(status, record, expires_at)


# ── What an operator does ───────────────────────────────────────────────────────────────────────────────────────────


async def look(opened: Opened, place: Place) -> Item | None:
    """The item of a key as it stands now; ``None`` if there is none, or its window is over."""
    there = await opened.home.store.get(place.partition, place.sort)
    return None if there is None or _expired(there, opened.clock.now_ms()) else there


async def forget(opened: Opened, place: Place) -> bool:
    """Delete a key's record, so that its next use is its first; false if there is none.

    Raises ``InvalidState`` while somebody is at work under it.
    """
    there = await look(opened, place)
    if there is None:
        return False
    if there.status == RUNNING and _stands(opened, there, opened.clock.now_ms()):
        raise InvalidState(f"somebody is at work under key {place.sort}; wait until he is done, or his lease lapses")
    gone: Write = Delete(place.partition, place.sort, RevisionIs(there.revision))
    try:
        await write_for_caller(opened.home.store, gone, ours=lambda item: item is None)
    except Refused:
        raise InvalidState(f"key {place.sort} has changed while it was to be forgotten; look at it again") from None
    return True


# ── Reading ─────────────────────────────────────────────────────────────────────────────────────────────────────────

encode: Final[Callable[[Record], bytes]] = msgspec.json.Encoder().encode
_decode: Final = msgspec.json.Decoder(Record).decode


def decode(item: Item) -> Record:
    """The record in an item of a key."""
    return _decode(item.body)


def busy(place: Place, held: Held, now: int) -> Busy:
    """The error for whoever finds the key held: it suggests to wait as long again as the work has taken so far."""
    waited_ms = max(0, min(now - held.since, held.until - now))
    return Busy(
        f"somebody else is at work under key {place.sort}; try again later, or give the handler wait=...",
        max(1, math.ceil(waited_ms / 1000)),
    )


def _expired(item: Item, now: int) -> bool:
    return item.expires_at is not None and item.expires_at <= now


def _nobodys(_there: Item | None) -> bool:
    """A refusal is judged as a whole, and not only whether it comes from our own write."""
    return False


def _parked(place: Place) -> KeyParked:
    return KeyParked(
        f"key {place.sort} is parked: one attempt after the other died under it without an outcome. Find out what "
        "kills them and what they did, then let it be tried again with app.idempotency(...).forget(...)"
    )
