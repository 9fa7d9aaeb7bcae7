"""Sessions on the store: one item for each, changed under its revision."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from msgspec import Raw, Struct, json

from holdfast.clock import Clock
from holdfast.codec.stored import stored
from holdfast.errors import Refused
from holdfast.items import ABSENT, Delete, Expired, Item, Put, RevisionIs, Update
from holdfast.persist import write_for_caller
from holdfast.ports import Store

PARTITION_PREFIX: Final = "session#"
SORT: Final = "s"
"""No head: sessions are neither swept nor listed. They are purged when they have expired."""

SLIDES_AFTER: Final = 0.1
"""The share of the idle time after which a read also writes, so that the session lasts."""


class Body(Struct, frozen=True):
    """What is stored: the fields as JSON, and the latest end of the session, in milliseconds."""

    until: int
    fields: dict[str, Raw]


_decode = stored(Body, "a session")


class StoreSessions:
    """See ``SessionStore``. A read costs a read, and now and then a write; everything else is one write."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store = store
        self._clock = clock

    async def begin(self, key: str, fields: Mapping[str, bytes], *, idle_ms: int, lifetime_ms: int) -> None:
        """See ``SessionStore.begin``."""
        now = self._clock.now_ms()
        body = Body(now + lifetime_ms, {name: Raw(value) for name, value in fields.items()})
        item = Item(PARTITION_PREFIX + key, SORT, expires_at=now + min(idle_ms, lifetime_ms), body=json.encode(body))
        await write_for_caller(self._store, Put(item, ABSENT), ours=lambda there: there is not None)

    async def look(self, key: str, idle_ms: int) -> Mapping[str, bytes] | None:
        """See ``SessionStore.look``."""
        item = await self._find(key)
        if item is None:
            return None
        body, now = _decode(item.body), self._clock.now_ms()
        expires_at = min(now + idle_ms, body.until)
        if expires_at - (item.expires_at or 0) > idle_ms * SLIDES_AFTER:
            try:
                # A read that is late, by an hour or by its clock, must not shorten what a later one has extended.
                slide = Update(partition=item.partition, sort=SORT, when=Expired(expires_at), expires_at=expires_at)
                await write_for_caller(self._store, slide, ours=lambda _there: False)
            except Refused as refused:
                if refused.item is None:  # it has ended meanwhile
                    return None
        return {name: bytes(value) for name, value in body.fields.items()}

    async def change(self, key: str, fields: Mapping[str, bytes], without: Sequence[str] = ()) -> bool:
        """See ``SessionStore.change``."""
        item = await self._find(key)
        while item is not None:
            body = _decode(item.body)
            kept = {name: value for name, value in body.fields.items() if name not in without}
            changed = json.encode(Body(body.until, kept | {name: Raw(value) for name, value in fields.items()}))
            write = Update(
                partition=item.partition, sort=SORT, when=RevisionIs(item.revision), body=changed, add_revision=1
            )
            try:
                await write_for_caller(
                    self._store,
                    write,
                    ours=lambda there: there is not None and there.body == changed,  # noqa: B023 - it is asked here and now
                )
            except Refused as refused:
                item = refused.item
                continue
            return True
        return False

    async def move(self, key: str, new_key: str) -> bool:
        """See ``SessionStore.move``."""
        item = await self._find(key)
        while item is not None:
            moved = Item(PARTITION_PREFIX + new_key, SORT, expires_at=item.expires_at, body=item.body)
            try:
                await write_for_caller(
                    self._store,
                    Put(moved, ABSENT),
                    Delete(item.partition, SORT, RevisionIs(item.revision)),
                    ours=lambda there: there is not None and there.partition == PARTITION_PREFIX + new_key,
                )
            except Refused as refused:
                item = refused.item
                continue
            return True
        return await self._find(new_key) is not None  # moved before, by a call whose answer was lost

    async def end(self, key: str) -> None:
        """See ``SessionStore.end``."""
        await write_for_caller(self._store, Delete(PARTITION_PREFIX + key, SORT), ours=lambda there: there is None)

    async def _find(self, key: str) -> Item | None:
        item = await self._store.get(PARTITION_PREFIX + key, SORT)
        if item is None or (item.expires_at is not None and item.expires_at <= self._clock.now_ms()):
            return None
        return item
