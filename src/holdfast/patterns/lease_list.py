"""The leases, semaphores and roles of leaders in a home: who holds each, and until when."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from holdfast.clock import moment
from holdfast.coordination.census import MOST_READS, entries_named, refuse_whole
from holdfast.errors import InvalidInput, StoreUnusable
from holdfast.keys import check_limit
from holdfast.patterns.acquiring import LEASE, terms_of

if TYPE_CHECKING:
    from holdfast.items import Item
    from holdfast.kernel.runtime import Runtime

KINDS: Final = ("leader", "lease", "semaphore")
CURSOR_MARK: Final = "/"

HELD: Final = "HELD"
LAPSED: Final = "LAPSED"
FREE: Final = "FREE"
STATUSES: Final = (HELD, LAPSED, FREE)


class LeaseStatus(Struct, frozen=True, kw_only=True):
    """A lease, or one permit of a semaphore, as its home holds it.

    ``HELD`` is one whose owner has it until ``until``, ``LAPSED`` one whose owner has died or not renewed it: the next
    caller takes it over. ``owner`` is the process that has it, ``alive`` whether that process lives, as far as this
    machine knows, and ``since`` when it got it. ``fence`` is the number that grows with every owner (G3).
    """

    kind: str
    name: str
    permit: int
    status: str
    owner: str | None
    alive: bool | None
    fence: int
    until: datetime | None
    since: datetime | None = None


class LeasePage(Struct, frozen=True):
    """Some leases, by kind and name. A page may be short, or empty, although there are more: pass ``after``."""

    items: tuple[LeaseStatus, ...]
    after: str | None


async def list_leases(
    runtime: Runtime,
    kind: str | None = None,
    *,
    status: str | None = None,
    after: str | None,
    limit: int,
    scan: bool = False,
) -> LeasePage:
    """One page of the leases of one kind, or of all. A page asks the store ``MOST_READS`` times at most; on a home
    without a census that reads the names of all partitions, in parts. Raises ``InvalidInput`` for a wrong kind, status,
    limit or cursor, and where those names are billed without ``scan``.
    """
    check_limit(limit)
    _check("kind", kind, KINDS)
    _check("status", status, STATUSES)
    refuse_whole(runtime.home, "leases", scan=scan)
    first, place = _parts(after)
    kinds = tuple(each for each in KINDS if kind in (None, each))
    looks: list[tuple[str, ...]] = [(each,) for each in kinds]
    if runtime.home.census is None:  # each look goes through the whole home, so one is for all kinds
        looks, first = [kinds], kinds[0]
    found: list[LeaseStatus] = []
    reads = 0
    for look in looks:
        if look[0] < first:
            continue
        cursor = place if look[0] == first else None
        more = True
        while more:
            if len(found) >= limit or reads >= MOST_READS:
                return LeasePage(tuple(found), f"{look[0]}{CURSOR_MARK}{cursor or ''}")
            prefixes = tuple(f"{each}#" for each in look)
            page = await entries_named(runtime.home, prefixes, after=cursor, limit=limit - len(found))
            reads += 1
            stand = (_status(item, runtime) for item in page.items if item.status == LEASE)
            found += [lease for lease in stand if status in (None, lease.status)]
            cursor, more = page.cursor, page.cursor is not None
    return LeasePage(tuple(found), None)


def _status(item: Item, runtime: Runtime) -> LeaseStatus:
    home, owner = runtime.home, None
    kind, _, name = item.partition.partition("#")
    alive: bool | None = None
    if item.owner is not None:
        owner = item.owner.partition("/")[0]
        alive = home.doorbell.alive(owner) if home.hears_peers else None
    lapsed = alive is False or (item.lease_until or 0) < runtime.clock.now_ms()
    return LeaseStatus(
        kind=kind,
        name=name,
        permit=int(item.sort.removeprefix("p#")),
        status=FREE if owner is None else LAPSED if lapsed else HELD,
        owner=owner,
        alive=alive,
        fence=item.epoch,
        until=None if item.lease_until is None else moment(item.lease_until),
        since=None if owner is None else _since(item),
    )


def _since(item: Item) -> datetime | None:
    try:
        since_ms = terms_of(item.body).since_ms
    except StoreUnusable:
        return None
    return moment(since_ms) if since_ms else None


def _check(what: str, given: str | None, known: tuple[str, ...]) -> None:
    if given is not None and given not in known:
        raise InvalidInput(f"no {what} of leases is called {given!r}; there are: {', '.join(known)}")


def _parts(after: str | None) -> tuple[str, str | None]:
    """What a cursor stands for: the kind, and the cursor within it."""
    if after is None:
        return "", None
    kind, mark, place = after.partition(CURSOR_MARK)
    if not mark or kind not in KINDS:
        raise InvalidInput(f"{after!r} is not a cursor of this list; pass the after of the previous page")
    return kind, place or None
