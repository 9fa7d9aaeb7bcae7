"""Changing a queue while it works: its numbers, its pause, and orders to end what waits."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from msgspec import UNSET
from msgspec.structs import replace

from holdfast.errors import InvalidState, NotFound, Refused
from holdfast.flow.record import PLACE_PREFIX, SETTINGS, make_due, name_of, shards_of, since_of
from holdfast.flow.settings import AS_DECLARED, Purge, Settings, decode_settings, encode_settings
from holdfast.kernel.wake import wake
from holdfast.paging import items
from holdfast.persist import amend

if TYPE_CHECKING:
    from holdfast.items import Item
    from holdfast.kernel.host import Host
    from holdfast.kernel.runtime import Runtime
    from holdfast.ports import Home

AS_IT_IS_DECLARED: Final[Mapping[str, Any]] = dict.fromkeys(("limit", "limit_per_key", "rate", "rate_per_key"), UNSET)
"""The numbers without any change."""

MOST_PURGES: Final = 100
"""The most keys for which orders are kept."""

LATE_MS: Final = 600_000
"""So long an order that is done is kept, where writes are paid: a place comes behind the head of its execution, and a
worker writes it after a minute if it did not.
"""

Amend = Callable[[Settings], Settings]


async def change(runtime: Runtime, partition: str, numbers: Mapping[str, Any]) -> None:
    """Change settings of a queue, by their names. Raises ``NotFound``."""
    await _amend(runtime.home, partition, lambda settings: replace(settings, **numbers), runtime.clock.now_ms())
    wake(partition, runtime.home, runtime.host)


async def order_purge(runtime: Runtime, partition: str, key: str | None) -> None:
    """Order that what waits now is ended. The worker that decides for the queue carries it out. Raises ``NotFound``."""
    now = runtime.clock.now_ms()
    order = Purge(key, await _last_since(runtime.home, partition, now))
    await _amend(runtime.home, partition, partial(_with_order, order, partition), now)
    wake(partition, runtime.home, runtime.host)


async def note_done(gate: str, done: Collection[Purge], host: Host) -> None:
    """Note that orders are carried out. One that was given again meanwhile is another one, and stays as it is."""

    def noted(settings: Settings) -> Settings:
        return replace(
            settings, purges=tuple(replace(each, done=each.done or each in done) for each in settings.purges)
        )

    await _amend(host.home, gate, noted, None)


def in_force(purges: Sequence[Purge], now: int) -> tuple[Purge, ...]:
    """The orders that are not done, or were given not long ago: a place may show itself late."""
    return tuple(each for each in purges if not each.done or each.until + LATE_MS > now)


async def _amend(home: Home, partition: str, change: Amend, due_at: int | None) -> None:
    """Write settings, and have the gate look unless ``due_at`` is ``None``. Raises ``NotFound``."""

    def changed(there: Item | None) -> bytes | None:
        before = settings_in(there)
        after = change(before)
        return None if after == before and there is not None else encode_settings(after)

    roused = () if due_at is None else (make_due(partition, due_at),)
    try:
        await amend(home.store, partition, SETTINGS, changed, *roused)
    except Refused:
        raise NotFound(f"there is no queue {name_of(partition)!r}: no worker with it has run yet") from None


def settings_in(item: Item | None) -> Settings:
    """What an item with settings says."""
    return AS_DECLARED if item is None else decode_settings(item.body)


def _with_order(order: Purge, partition: str, settings: Settings) -> Settings:
    others = [each for each in in_force(settings.purges, order.until) if each.key != order.key]
    order = max((order, *(each for each in settings.purges if each.key == order.key)), key=lambda each: each.until)
    others.sort(key=lambda each: (each.done, -each.until))
    if len(others) >= MOST_PURGES and not others[MOST_PURGES - 1].done:
        raise InvalidState(f"{MOST_PURGES} purges of queue {name_of(partition)!r} are under way; try again later")
    return replace(settings, purges=(*others[: MOST_PURGES - 1], replace(order, done=False)))


async def _last_since(home: Home, gate: str, now: int) -> int:
    """Since when that waits which has come last: by a process whose clock is ahead, it may seem to come only later."""
    last = now
    for shard in shards_of(gate):
        async for place in items(home.store, shard, prefix=PLACE_PREFIX, after=f"{PLACE_PREFIX}{now:015d}"):
            last = max(last, since_of(place.sort))
    return last
