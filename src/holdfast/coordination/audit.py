"""The audit: who changed what, when, and with which result, in rows that expire.

A row is written before the change, so none is missing if the process dies; its outcome is added after the change.
``begun`` is the outcome of a change whose end is unknown. The rows of one month are one partition.
"""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Final

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from holdfast import ids
from holdfast.clock import Clock, moment
from holdfast.codec.stored import stored
from holdfast.duration import milliseconds
from holdfast.errors import HoldfastError, StoreError
from holdfast.items import Item, Put
from holdfast.paging import items
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

LONGEST_MONTH_MS: Final = 31 * 86_400_000


class AuditRow(Struct, frozen=True, kw_only=True):
    """One change. ``at`` is in milliseconds; ``outcome`` is ``done``, ``begun``, ``failed`` or the code of an error."""

    at: int
    who: str
    action: str
    what: str
    outcome: str = BEGUN


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
    sort = f"{row.at:015d}#{ids.new_id()}"
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
    """The newest rows since ``since_ms``, newest first."""
    now, found = clock.now_ms(), list[AuditRow]()
    since_ms = max(since_ms, now - window_ms())
    for partition in _partitions_between(since_ms, now):
        of_month = [_decode(item.body) async for item in items(store, partition, after=f"{since_ms:015d}")]
        found += reversed(of_month)
        if len(found) >= limit:
            break
    return found[:limit]


def _partition_at(ms: int) -> str:
    return PARTITION_PREFIX + moment(ms).strftime("%Y-%m")


def _partitions_between(since_ms: int, until_ms: int) -> list[str]:
    """The partitions of these months, the newest first."""
    steps = range(until_ms, since_ms - LONGEST_MONTH_MS, -LONGEST_MONTH_MS // 2)
    return list(dict.fromkeys(_partition_at(max(ms, since_ms)) for ms in steps))
