"""Becoming the owner of a key."""

from __future__ import annotations

from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from holdfast import ids
from holdfast.coordination.idempotency.record import (
    PARKED,
    RUNNING,
    Ended,
    Held,
    Place,
    Record,
    Terms,
    Ticket,
    changed,
    decode,
    encode,
    expired,
    parked,
    stands,
)
from holdfast.errors import Busy, IdempotencyMismatch, Refused
from holdfast.items import ABSENT, Item, Put, RevisionIs, Update
from holdfast.opened import Opened
from holdfast.persist import write_for_caller

CONTESTS: Final = 10
"""How often a key may change hands while a caller asks for it, before the caller gets ``Busy``."""


class _Take(Struct, frozen=True):
    write: Put | Update
    ticket: Ticket
    takeover: bool = False


class _Park(Struct, frozen=True):
    write: Update


def new_owner(opened: Opened) -> str:
    """A name for the owner of one attempt."""
    return f"{opened.home.owner}!{ids.new_id()}"


async def acquire(
    opened: Opened, place: Place, terms: Terms, *, owner: str, lease_ms: int, seen: Item | None = None
) -> Ticket | Ended | Held:
    """Try to become the owner of a key: one write if it is new, and one if it is known, because the refusal carries the
    record. ``seen`` is what a read has found. Called again with the same ``owner``, it recognises its own write.

    Raises ``IdempotencyMismatch`` if the key was used with another payload, ``KeyParked``, and ``StoreUnavailable``
    when the store has not answered for a while; the lease then lapses by itself.
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
            opened.emit("parked", partition=place.partition, place=place.sort)
            raise parked(place)
        if move.takeover:
            opened.emit("claimed", partition=place.partition, takeover=True)
        return move.ticket
    raise Busy(f"key {place.sort} changed hands {CONTESTS} times while it was asked for; try again")


def _judge(
    opened: Opened, place: Place, terms: Terms, there: Item | None, *, owner: str, until: int
) -> _Take | _Park | Ticket | Ended | Held:
    now = opened.clock.now_ms()
    if there is None or expired(there, now):
        return _take(place, terms, there, Record(place.fingerprint, owner, now), owner=owner, until=until)
    record = decode(there)
    if there.owner == owner:  # the answer to our own write was lost
        return Ticket(place, owner, there.epoch, there.lease_until or now, record, terms)
    if record.fingerprint not in {place.fingerprint, place.former or place.fingerprint}:
        raise IdempotencyMismatch(
            f"key {place.sort} was used with another payload. Use another key, or the same payload"
        )
    again = replace(record, by=owner, started_at=now, started=record.started + 1)
    match there.status:
        case "COMPLETED" | "FAILED":
            return Ended(there.status, record, there.expires_at or now)
        case "PARKED":
            raise parked(place)
        case "RUNNING" if stands(opened, there, now):
            return Held(record.started_at, there.lease_until or now)
        case "RUNNING" if record.started - record.finished >= terms.max_crashes:
            return _Park(changed(place, RevisionIs(there.revision), PARKED, replace(record, by=owner)))
        case _:
            return _take(place, terms, there, again, owner=owner, until=until)


def _take(place: Place, terms: Terms, there: Item | None, record: Record, *, owner: str, until: int) -> _Take:
    expires_at = until + terms.window_ms
    if there is not None:
        as_seen = RevisionIs(there.revision)
        write = changed(place, as_seen, RUNNING, record, owner=owner, lease_until=until, expires_at=expires_at)
        takeover = there.status == RUNNING
        return _Take(replace(write, add_epoch=1), Ticket(place, owner, there.epoch + 1, until, record, terms), takeover)
    item = Item(
        partition=place.partition,
        sort=place.sort,
        # A record may be purged and created again: what was seen of the old one must not fit the new one.
        revision=ids.new_seed() >> 24,
        status=RUNNING,
        owner=owner,
        lease_until=until,
        epoch=1,
        expires_at=expires_at,
        body=encode(record),
    )
    return _Take(Put(item, ABSENT), Ticket(place, owner, 1, until, record, terms))


def _nobodys(_there: Item | None) -> bool:
    """A refusal is judged as a whole, not only by whether our own write caused it."""
    return False
