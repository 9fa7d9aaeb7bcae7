"""The audit: who changed what, when, and with which result, in rows that expire.

A row is written before the change, so none is missing if the process dies; its outcome is added after the change.
``begun`` is the outcome of a change whose end is unknown. The rows of one month are one partition.
"""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Final

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from holdfast import ids
from holdfast.clock import Clock, moment
from holdfast.codec.stored import stored
from holdfast.duration import milliseconds
from holdfast.errors import HoldfastError, InvalidInput, StoreError
from holdfast.items import Item, Put
from holdfast.persist import write_for_caller

if TYPE_CHECKING:
    from holdfast.ports import Store

PARTITION_PREFIX: Final = "audit#"
WINDOW_VARIABLE: Final = "HOLDFAST_AUDIT_WINDOW"
DEFAULT_WINDOW: Final = "90d"
BEGUN: Final = "begun"
DONE: Final = "done"
UNDECLARED: Final = "failed"
"""The outcome of a change that ended in an error of a type that is not Holdfast's."""

DIGITS: Final = 15
"""How many digits of milliseconds a sort key begins with."""

MOST_PARTS: Final = 60
"""How many parts of months one page reads. A page may therefore be short, or empty, with a cursor to go on from."""

LONGEST_CURSOR: Final = 100
LONGEST_MONTH_MS: Final = 31 * 86_400_000


class AuditRow(Struct, frozen=True, kw_only=True):
    """One change. ``at`` is in milliseconds; ``outcome`` is ``done``, ``begun``, ``failed`` or the code of an error."""

    at: int
    who: str
    action: str
    what: str
    outcome: str = BEGUN


class AuditPage(Struct, frozen=True):
    """Some changes, newest first. A page may be short, or empty, although there are more: pass ``after``."""

    items: tuple[AuditRow, ...]
    after: str | None


_decode = stored(AuditRow, "a row of the audit")


def window_ms() -> int:
    """How long rows stay: ``HOLDFAST_AUDIT_WINDOW``, else 90 days."""
    return milliseconds(os.environ.get(WINDOW_VARIABLE) or DEFAULT_WINDOW)


@asynccontextmanager
async def audited(store: Store, clock: Clock, who: str, action: str, what: str) -> AsyncGenerator[None]:
    """Keep a row of the change that is made inside. Raises ``StoreError`` if the row cannot be written; nothing is
    changed then.
    """
    row = AuditRow(at=clock.now_ms(), who=who, action=action, what=what)
    sort = f"{row.at:0{DIGITS}d}#{ids.new_id()}"
    await _keep(store, sort, row)
    outcome = BEGUN
    try:
        yield
        outcome = DONE
    except HoldfastError as error:
        outcome = error.code
        raise
    except Exception:
        outcome = UNDECLARED
        raise
    finally:
        if outcome != BEGUN:
            with suppress(StoreError):  # the change is made or refused already, and the row says ``begun``
                await _keep(store, sort, replace(row, outcome=outcome))


async def _keep(store: Store, sort: str, row: AuditRow) -> None:
    item = Item(_partition_at(row.at), sort, expires_at=row.at + window_ms(), body=msgspec.json.encode(row))
    await write_for_caller(store, Put(item), ours=lambda there: there == item)


async def rows_since(store: Store, clock: Clock, since_ms: int, limit: int) -> list[AuditRow]:
    """The newest rows since ``since_ms``, newest first, up to ``limit``."""
    found: list[AuditRow] = []
    after: str | None = None
    while True:
        page = await list_rows(store, clock, since_ms=since_ms, after=after, limit=limit - len(found))
        found += page.items
        after = page.after
        if after is None or len(found) >= limit:
            return found


async def list_rows(
    store: Store, clock: Clock, *, since_ms: int = 0, after: str | None = None, limit: int = 100
) -> AuditPage:
    """One page of the rows since ``since_ms``, newest first. Raises ``InvalidInput`` for a wrong cursor.

    A store lists in one direction only, and the newest rows are the last of their month. Sort keys begin with the time,
    so a month that has more than a page is read in parts: each is what begins with the same digits. A page reads
    ``MOST_PARTS`` parts at most.
    """
    now = clock.now_ms()
    first = max(since_ms, now - window_ms(), 0)
    before = f"{now + 1:0{DIGITS}d}" if after is None else _checked(after)
    part = _Part(store, first, before, limit)
    for partition in _partitions_between(first, max(int(before[:DIGITS]), first)):
        await part.read(partition, "")
    return part.page()


class _Part:
    """The rows of one page, while they are read."""

    def __init__(self, store: Store, first: int, before: str, limit: int) -> None:
        self._store = store
        self._first = first
        self._before = before
        self._limit = limit
        self._found: list[Item] = []
        self._parts = 0
        self._left_at: str | None = None

    def page(self) -> AuditPage:
        """What was found, and where the next page begins."""
        kept = self._found[: self._limit]
        after = kept[-1].sort if len(self._found) > self._limit else self._left_at
        return AuditPage(tuple(_decode(item.body) for item in kept), after)

    async def read(self, partition: str, digits: str) -> None:
        """Read the rows whose sort keys begin with these digits, the newest first."""
        earliest = int(digits.ljust(DIGITS, "0"))
        latest = min(int(digits.ljust(DIGITS, "9")), _last_of(partition))
        is_full = self._left_at is not None or len(self._found) > self._limit
        if is_full or latest < self._first or f"{earliest:0{DIGITS}d}" >= self._before:
            return
        if self._parts == MOST_PARTS:
            # All rows that are newer were read: those that were found, and none besides them.
            self._left_at = min(f"{latest + 1:0{DIGITS}d}", self._before, *(item.sort for item in self._found[-1:]))
            return
        self._parts += 1
        page = await self._store.query(partition, prefix=digits, limit=self._limit + 1)
        if page.cursor is not None and len(digits) < DIGITS:
            for digit in "9876543210":
                await self.read(partition, digits + digit)
            return
        here = [*page.items]
        while page.cursor is not None:  # they are all of one millisecond
            page = await self._store.query(partition, prefix=digits, after=page.cursor)
            here += page.items
        self._found += [item for item in reversed(here) if self._first <= _at(item) and item.sort < self._before]


def _at(item: Item) -> int:
    return int(item.sort[:DIGITS])


def _checked(after: str) -> str:
    digits = after[:DIGITS]
    if len(digits) < DIGITS or not (digits.isascii() and digits.isdigit()) or len(after) > LONGEST_CURSOR:
        raise InvalidInput(f"{after[:60]!r} is not a cursor of this list; pass the after of the previous page")
    return after


def _partition_at(ms: int) -> str:
    return PARTITION_PREFIX + moment(ms).strftime("%Y-%m")


def _last_of(partition: str) -> int:
    """The last millisecond of the month of a partition."""
    first = datetime.strptime(partition, f"{PARTITION_PREFIX}%Y-%m").replace(tzinfo=UTC)
    following = (first + timedelta(days=32)).replace(day=1)
    return round(following.timestamp() * 1000) - 1


def _partitions_between(since_ms: int, until_ms: int) -> list[str]:
    """The partitions of these months, the newest first."""
    steps = range(until_ms, since_ms - LONGEST_MONTH_MS, -LONGEST_MONTH_MS // 2)
    return list(dict.fromkeys(_partition_at(max(ms, since_ms)) for ms in steps))
