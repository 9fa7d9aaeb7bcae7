"""The numbers of a limit that were changed since it was declared, and how it stands."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

import msgspec
from msgspec import UNSET, Struct, UnsetType
from msgspec.structs import replace

from holdfast.clock import moment
from holdfast.codec.stored import stored
from holdfast.flow.lending import EMPTY, OVER, Numbers, decode_book
from holdfast.flow.rates import Rate
from holdfast.flow.settings import StoredRate
from holdfast.kernel.wake import notify
from holdfast.persist import amend

if TYPE_CHECKING:
    from holdfast.items import Item
    from holdfast.kernel.runtime import Runtime
    from holdfast.ports import Store

SETTINGS: Final = "settings"
"""The item of what was changed, next to those of the keys."""


class Overrides(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What was changed; ``UNSET`` is as declared, ``None`` no limit."""

    permits: int | UnsetType | None = UNSET
    rate: StoredRate | UnsetType | None = UNSET

    def over(self, declared: Numbers) -> Numbers:
        """The numbers that hold."""
        permits = declared.permits if self.permits is UNSET else self.permits
        if self.rate is UNSET:
            return Numbers(permits, declared.rate)
        return Numbers(permits, None if self.rate is None else self.rate.rate())


AS_DECLARED: Final = Overrides()

_encode: Final = msgspec.json.Encoder().encode
_decode: Final = stored(Overrides, "the settings of a limit")


class LimitLoan(Struct, frozen=True, kw_only=True):
    """What a process has of a limit: ``permits``, until it renews them or they end, and how many calls wait there."""

    owner: str
    permits: int
    waiting: int
    until: datetime


class LimitStatus(Struct, frozen=True, kw_only=True):
    """A limit, or a key of it, as its home holds it. ``permits`` and ``rate`` are the numbers that hold now.

    ``loans`` are of the processes that use it. A process writes what waits there when it looks, every few seconds.
    ``next_at`` is when the next token may be used that no process has; ``None`` without a rate.
    """

    permits: int | None
    rate: Rate | None
    loans: tuple[LimitLoan, ...]
    next_at: datetime | None


async def read_numbers(partition: str, declared: Numbers, store: Store) -> Numbers:
    """The numbers of a limit that hold now."""
    return _overrides_in(await store.get(partition, SETTINGS)).over(declared)


async def status_of(runtime: Runtime, partition: str, sort: str, declared: Numbers) -> LimitStatus:
    """How a key of a limit stands."""
    store = runtime.home.store
    numbers, item = await read_numbers(partition, declared, store), await store.get(partition, sort)
    book = EMPTY if item is None else decode_book(item.body)
    loans = tuple(
        LimitLoan(owner=owner, permits=loan.permits, waiting=loan.waiting, until=moment(loan.until))
        for owner, loan in book.loans.items()
        if loan.until != OVER
    )
    next_at = None if numbers.rate is None else moment(max(book.arrival // 1000, runtime.clock.now_ms()))
    return LimitStatus(permits=numbers.permits, rate=numbers.rate, loans=loans, next_at=next_at)


async def override(runtime: Runtime, partition: str, numbers: Mapping[str, Any]) -> None:
    """Change numbers of a limit, by their names."""
    await amend(
        runtime.home.store, partition, SETTINGS, lambda there: _encode(replace(_overrides_in(there), **numbers))
    )
    runtime.wake_listeners.heard(partition)
    notify(partition, runtime.home)


def _overrides_in(item: Item | None) -> Overrides:
    return AS_DECLARED if item is None else _decode(item.body)
