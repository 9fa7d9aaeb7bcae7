"""The numbers of a limit that were changed since it was declared, and how it stands."""

from __future__ import annotations

import asyncio
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
from holdfast.flow.settings import StoredRate, rate_in
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
        return Numbers(permits, rate_in(self.rate))


AS_DECLARED: Final = Overrides()

AS_IT_IS_DECLARED: Final[Mapping[str, Any]] = {"permits": UNSET, "rate": UNSET}
"""The numbers without any change."""

KEY_PREFIX: Final = "k#"
"""The items of keys begin with this. That without a key is of the limit itself."""

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

    ``loans`` are of the processes that use it; they have ``lent`` permits in all, and ``waiting`` calls wait in them. A
    process writes that five seconds after it has changed, or earlier. ``next_at`` is when the next token may be used
    that no process has; ``None`` without a rate. ``keys`` are the first keys that were used lately, where a command
    shows the limit.
    """

    app: str
    name: str
    key: str
    permits: int | None
    rate: Rate | None
    loans: tuple[LimitLoan, ...]
    next_at: datetime | None
    lent: int
    waiting: int
    keys: tuple[str, ...] = ()


async def read_numbers(
    partition: str, declared: Numbers, store: Store, changed: Mapping[str, Any] | None = None
) -> Numbers:
    """The numbers of a limit that hold now, or would once some of them are ``changed``."""
    return replace(_overrides_in(await store.get(partition, SETTINGS)), **(changed or {})).over(declared)


async def status_of(
    runtime: Runtime, partition: str, key: str, declared: Numbers | None, *, most_keys: int = 0
) -> LimitStatus:
    """How a limit stands, or a key of it. Without its code, ``declared``, the numbers are those by which was decided
    last.
    """
    store, keys = runtime.home.store, tuple[str, ...]()
    changed, item = await asyncio.gather(store.get(partition, SETTINGS), store.get(partition, KEY_PREFIX + key))
    if most_keys:
        found = (await store.query(partition, prefix=KEY_PREFIX, limit=most_keys + 1)).items
        keys = tuple(each.sort.removeprefix(KEY_PREFIX) for each in found if each.sort != KEY_PREFIX)[:most_keys]
        item = item or next(iter(found), None) if declared is None else item
    book = EMPTY if item is None else decode_book(item.body)
    numbers = _overrides_in(changed).over(declared or Numbers(book.permits, rate_in(book.rate)))
    is_own = item is not None and item.sort == KEY_PREFIX + key
    lasting = {owner: loan for owner, loan in book.loans.items() if is_own and loan.until != OVER}
    _, app, name = partition.split("#")
    next_ms = max(book.arrival // 1000 if is_own else 0, runtime.clock.now_ms())
    return LimitStatus(
        app=app,
        name=name,
        key=key,
        permits=numbers.permits,
        rate=numbers.rate,
        loans=tuple(
            LimitLoan(owner=owner, permits=loan.permits, waiting=loan.waiting, until=moment(loan.until))
            for owner, loan in lasting.items()
        ),
        next_at=None if numbers.rate is None else moment(next_ms),
        lent=sum(loan.permits for loan in lasting.values()),
        waiting=sum(loan.waiting for loan in lasting.values()),
        keys=keys,
    )


async def override(runtime: Runtime, partition: str, numbers: Mapping[str, Any]) -> None:
    """Change numbers of a limit, by their names."""
    await amend(
        runtime.home.store, partition, SETTINGS, lambda there: _encode(replace(_overrides_in(there), **numbers))
    )
    runtime.wake_listeners.heard(partition)
    notify(partition, runtime.home)


def _overrides_in(item: Item | None) -> Overrides:
    return AS_DECLARED if item is None else _decode(item.body)
