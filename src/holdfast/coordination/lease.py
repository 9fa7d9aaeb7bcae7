"""Leases: who may work on an item now, and under which epoch.

A lease decides only how soon another worker may try; safety rests on the epoch, which every later write of the owner
carries (G3, G9). Claiming a lease that was not released is a *takeover*: its owner may still be awake.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, TypeGuard

from msgspec import UNSET, Struct, UnsetType

from holdfast.errors import HoldfastError, Refused, StoreUnavailable
from holdfast.items import HEAD, UNOWNED, AllOf, Condition, Item, LeaseLapsed, OwnerIs, StatusIn, Update
from holdfast.ports import Store


class Fenced(HoldfastError):
    """Another owner holds a newer epoch. Write nothing more and forget what was in memory."""

    code = "fenced"


class Claimed(Struct, frozen=True):
    """The lease is ours; ``item`` is as the claim left it. ``takeover``: its last owner never released it; ``died``:
    that owner was another process.
    """

    item: Item
    takeover: bool
    died: bool = False


class Held(Struct, frozen=True):
    """Another owner holds it until ``until`` (milliseconds). ``unanswered``: it has lapsed, and the store did not take
    the claim, so its owner could not renew it either.
    """

    owner: str
    until: int
    unanswered: bool = False


class Closed(Struct, frozen=True):
    """It does not exist, or is in a status in which no worker works on it."""

    item: Item | None


Claim = Claimed | Held | Closed

NEVER: Final = 0


async def claim(  # noqa: PLR0913 - whose, what, until when, and what counts as left behind
    store: Store,
    partition: str,
    *,
    owner: str,
    now: int,
    until: int,
    claimable: tuple[str, ...],
    running: str,
    alive: Callable[[str], bool],
    sort: str = HEAD,
    body: bytes | UnsetType = UNSET,
    silent: Item | None = None,
    spare: bool = False,
) -> Claim:
    """Try to become the owner of a head, or of another item; one write unless another owner left it unreleased.

    ``claimable`` are the statuses in which to claim it, ``running`` the one to set. A lease is taken over at once if
    ``alive`` says that its owner is gone, else when it has lapsed. A claim whose answer was lost counts as our own
    unreleased lease: taking it over again costs one epoch and is always safe. ``body`` is stored with the claim.
    ``silent`` is the item as the caller has seen it for so long that its owner must be gone, whatever clocks say.
    ``spare``: the last claim was ``unanswered``. Then a lapsed lease of a living owner is renewed for it, in place of
    the takeover: the store takes writes again, and the owner first writes what it has.
    """

    def attempt(when: Condition) -> Update:
        return Update(
            partition=partition,
            sort=sort,
            when=AllOf((when, StatusIn(claimable))),
            status=running,
            owner=owner,
            lease_until=until,
            body=body,
            add_epoch=1,
            load=True,
        )

    try:
        return Claimed(_loaded(await store.write(attempt(UNOWNED))), takeover=False)
    except Refused as refused:
        there = refused.item
    if there is None or there.status not in claimable:
        return Closed(there)
    if there.owner is None:
        return Held("", NEVER)
    gone = there.owner == owner or not alive(there.owner)
    if (when := _left_behind(there, there.owner, now, silent, gone=gone)) is None:
        return Held(there.owner, there.lease_until or NEVER)
    try:
        if spare and not gone:
            return await _respite(store, there, there.owner, when, until)
        return Claimed(_loaded(await store.write(attempt(when))), takeover=True, died=there.owner != owner)
    except StoreUnavailable:
        if gone:
            raise
        return Held(there.owner, until, unanswered=True)
    except Refused as refused:
        return Held(refused.item.owner or "", now) if refused.item is not None else Closed(None)


async def _respite(store: Store, there: Item, owner: str, when: Condition, until: int) -> Held:
    """Renew a lease that has lapsed for its owner."""
    await store.write(Update(partition=there.partition, sort=there.sort, when=when, lease_until=until))
    return Held(owner, until)


def _left_behind(there: Item, owner: str, now: int, silent: Item | None, *, gone: bool) -> Condition | None:
    """The condition under which a lease is as it was seen, and has lapsed unless its owner is ``gone``; ``None`` if it
    has not lapsed.
    """
    held = OwnerIs(owner, there.epoch)
    if gone:
        return held
    if there.lease_until is not None and there.lease_until < now:
        return AllOf((held, LeaseLapsed(now)))
    if is_leased(silent, held.owner, held.epoch) and silent.lease_until == there.lease_until:
        return AllOf((held, LeaseLapsed((there.lease_until or NEVER) + 1)))  # refused if the owner renews it after all
    return None


def renewal(partition: str, owner: str, epoch: int, until: int, *, sort: str = HEAD) -> Update:
    """The write that renews a lease; refused if it is no longer ours, or lasts as long already.

    Two renewals may overtake each other: the one that arrives last must not shorten the lease.
    """
    ours_until_earlier = AllOf((OwnerIs(owner, epoch), LeaseLapsed(until)))
    return Update(partition=partition, sort=sort, when=ours_until_earlier, lease_until=until)


def release(partition: str, owner: str, epoch: int, *, sort: str = HEAD) -> Update:
    """The write that releases a lease; refused if it is no longer ours. The epoch stays: it is the fence (G3)."""
    return Update(partition=partition, sort=sort, when=OwnerIs(owner, epoch), owner=None, lease_until=None)


def is_leased(there: Item | None, owner: str, epoch: int) -> TypeGuard[Item]:
    """Whether a head is leased to this owner, under this epoch."""
    return there is not None and there.owner == owner and there.epoch == epoch


def is_released(there: Item | None, epoch: int, revision: int) -> TypeGuard[Item]:
    """Whether a head is as its owner of this epoch left it, if there was no wake-up since this revision: so a release
    whose answer was lost is recognised.
    """
    return there is not None and there.owner is None and (there.epoch, there.revision) == (epoch, revision)


def _loaded(answers: Sequence[Item | None]) -> Item:
    (item,) = answers
    assert item is not None
    return item
