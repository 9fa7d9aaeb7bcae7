"""The record of an idempotency key, and what follows from it without a read."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final

import msgspec
from msgspec import Raw, Struct

from holdfast import ids
from holdfast.codec.stored import stored
from holdfast.errors import Busy, KeyParked
from holdfast.failure import ErrorRecord
from holdfast.items import Condition, Item, Update
from holdfast.opened import Opened

PARTITION_PREFIX: Final = "key#"
FREE: Final = "FREE"
RUNNING: Final = "RUNNING"
COMPLETED: Final = "COMPLETED"
FAILED: Final = "FAILED"
PARKED: Final = "PARKED"

SKEW_MS: Final = 2_000
"""How much longer than its lease a key is left to its owner, because the clocks of two machines differ."""

LONGEST_KEY_BYTES: Final = 1_000
"""DynamoDB takes sort keys of up to 1,024 bytes ("Constraints in Amazon DynamoDB")."""

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
    """One key, and the fingerprint of the payload it is used with; older versions called that ``former``."""

    partition: str
    sort: str
    fingerprint: str
    former: str = ""


class Terms(Struct, frozen=True):
    """How long an outcome counts, and after how many crashes in one window a key is parked."""

    window_ms: int
    max_crashes: int


class Ticket(Struct, frozen=True):
    """The key is ours: the holder of this may end the attempt, once."""

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
    """Another attempt is at work, since and until these times unless it renews its lease."""

    since: int
    until: int


def place_of(name: str, key: str, fingerprint: str = "", former: str = "") -> Place:
    """Where the record of a key is. Keys of one handler share 256 partitions, by their digest."""
    return Place(f"{PARTITION_PREFIX}{name}/{ids.fingerprint(key.encode())[:2]}", key, fingerprint, former)


encode: Final[Callable[[Record], bytes]] = msgspec.json.Encoder().encode
_decode: Final = stored(Record, "the record of an idempotency key")


def changed(
    place: Place,
    when: Condition,
    status: str,
    record: Record,
    *,
    owner: str | None = None,
    lease_until: int | None = None,
    expires_at: int | None = None,
) -> Update:
    """The write that changes the record of a key. With no owner, no attempt is at work under it."""
    return Update(
        partition=place.partition,
        sort=place.sort,
        when=when,
        status=status,
        owner=owner,
        lease_until=lease_until,
        expires_at=expires_at,
        body=encode(record),
        add_revision=1,
    )


def decode(item: Item) -> Record:
    """The record in an item of a key."""
    return _decode(item.body)


def expired(item: Item, now: int) -> bool:
    """Whether its window is over; it then counts as absent (``Item.expires_at``)."""
    return item.expires_at is not None and item.expires_at <= now


def stands(opened: Opened, there: Item, now: int) -> bool:
    """Whether the owner may still be at work: its lease has not lapsed, and it is not known to be dead."""
    lapsed = there.lease_until is None or there.lease_until < now - SKEW_MS
    return not lapsed and opened.home.doorbell.alive((there.owner or "").rpartition("!")[0])


def busy(place: Place, held: Held, now: int) -> Busy:
    """The error for a caller that finds the key held. It suggests to wait as long as the work has taken so far."""
    waited_ms = max(0, min(now - held.since, held.until - now))
    return Busy(
        f"another attempt runs under key {place.sort}; try again later, or give the handler wait=...",
        max(1, math.ceil(waited_ms / 1000)),
    )


def parked(place: Place) -> KeyParked:
    """The error for a caller that finds the key parked."""
    return KeyParked(
        f"key {place.sort} is parked: several attempts in a row crashed under it without an outcome. Find out what "
        "kills them and what they did, then allow another attempt with app.idempotency(...).forget(...)"
    )
