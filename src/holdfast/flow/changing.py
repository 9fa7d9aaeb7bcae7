"""Changing a queue while it works: its numbers, its pause, and orders to end what waits."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from msgspec import UNSET
from msgspec.structs import replace

from holdfast.errors import InvalidState, NotFound, Refused
from holdfast.flow.gate import Gate
from holdfast.flow.record import PLACE_PREFIX, SETTINGS, make_due, name_of, shards_of, since_of, waiting_of
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

MOST_LATER: Final = 200
"""The most places that orders under way name, all together. If there are more, an order goes by the time of these."""

LATE_MS: Final = 600_000
"""So long an order that is done is kept, where writes are paid: a place may come behind the head of its execution, and
a worker writes it after a minute if it did not.
"""

Amend = Callable[[Settings], Settings]


async def change(runtime: Runtime, partition: str, numbers: Mapping[str, Any]) -> None:
    """Change settings of a queue, by their names. What this process lets begin afterwards begins by them. Raises
    ``NotFound``.
    """
    await _order(runtime, partition, lambda settings: replace(settings, **numbers), runtime.clock.now_ms())


async def order_purge(runtime: Runtime, partition: str, key: str | None) -> None:
    """Order that what waits now is ended. The worker that decides for the queue carries it out. Raises ``NotFound``.

    What has come before this moment is told by its time. What has come in it, or by a clock that is ahead, is named: so
    what comes after the order is not covered, even in the same millisecond.
    """
    now = runtime.clock.now_ms()
    order = Purge(key, now - 1, later=await _come_later(runtime.home, partition, key, now))
    await _order(runtime, partition, partial(_with_order, order, partition), now)


async def note_done(gate: str, done: Collection[Purge], host: Host) -> None:
    """Note that orders are carried out. One that was given again meanwhile is another one, and stays as it is."""

    def noted(settings: Settings) -> Settings:
        return replace(settings, purges=tuple(each.carried_out() if each in done else each for each in settings.purges))

    await _amend(host.home, gate, noted, None)


def in_force(purges: Sequence[Purge], now: int) -> tuple[Purge, ...]:
    """The orders that are not done, or were given not long ago: a place may show itself late."""
    return tuple(each for each in purges if not each.done or each.until + LATE_MS > now)


async def _order(runtime: Runtime, partition: str, change: Amend, now: int) -> None:
    """Write settings, and tell the worker that decides: it may be this one, with a round under way."""
    try:
        await _amend(runtime.home, partition, change, now)
    finally:  # if the answer was lost, they may be there
        if (gate := _gate_here(runtime, partition)) is not None:
            gate.has_other_settings()
        wake(partition, runtime.home, runtime.host)


def _gate_here(runtime: Runtime, partition: str) -> Gate | None:
    gate = None if runtime.host is None else runtime.host.entities.get(partition)
    return gate if isinstance(gate, Gate) else None


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
    others.sort(key=lambda each: (each.done, -each.until))
    if len(others) >= MOST_PURGES and not others[MOST_PURGES - 1].done:
        raise InvalidState(f"{MOST_PURGES} purges of queue {name_of(partition)!r} are under way; try again later")
    before = [each for each in settings.purges if each.key == order.key]
    order = _bounded([order, *before], MOST_LATER - sum(len(each.later) for each in others))
    return replace(settings, purges=(*others[: MOST_PURGES - 1], order))


def _bounded(orders: Sequence[Purge], most: int) -> Purge:
    """One order for all of these, which have the same key. It names ``most`` places, the latest."""
    until = max(each.until for each in orders)
    places = sorted({place for each in orders for place in each.later if since_of(place) > until}, key=since_of)
    by_time, named = places[: max(0, len(places) - most)], places[max(0, len(places) - most) :]
    until = max((until, *map(since_of, by_time)))
    return Purge(orders[0].key, until, later=tuple(place for place in named if since_of(place) > until))


async def _come_later(home: Home, gate: str, key: str | None, now: int) -> tuple[str, ...]:
    """The places of what waits, and by its time comes only now or later."""
    found: list[str] = []
    for shard in shards_of(gate):
        places = items(home.store, shard, prefix=PLACE_PREFIX, after=f"{PLACE_PREFIX}{now:015d}")
        found.extend([each.sort async for each in places if key is None or waiting_of(each).key == key])
    return tuple(found)
