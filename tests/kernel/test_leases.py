"""Renewals may overtake each other on their way to the store."""

from __future__ import annotations

import pytest

from holdfast.backends.memory import open_memory_home
from holdfast.coordination.lease import Claimed, Held, claim, is_leased, renewal
from holdfast.errors import Refused, StoreUnavailable
from holdfast.items import UNOWNED, Item, Put


async def leased():
    store = open_memory_home().store
    await store.write(Put(Item(partition="p", owner="me", epoch=3, lease_until=10)))
    return store


async def test_a_renewal_that_arrives_late_does_not_shorten_the_lease():
    store = await leased()
    await store.write(renewal("p", "me", 3, until=30))
    with pytest.raises(Refused) as refused:
        await store.write(renewal("p", "me", 3, until=20))
    assert is_leased(refused.value.item, "me", 3), "it is refused, but the lease is not lost"
    assert (await store.get("p")).lease_until == 30


@pytest.mark.parametrize(("owner", "epoch"), [("other", 3), ("me", 2)])
async def test_a_renewal_is_refused_to_whoever_lost_the_lease(owner, epoch):
    store = await leased()
    with pytest.raises(Refused) as refused:
        await store.write(renewal("p", owner, epoch, until=30))
    assert not is_leased(refused.value.item, owner, epoch)
    assert (await store.get("p")).lease_until == 10


class Full:
    """A store without room: what is refused is refused, and nothing else is answered."""

    def __init__(self, store):
        self._store = store
        self.full = True

    async def get(self, partition):
        return await self._store.get(partition)

    async def write(self, *writes):
        there = await self._store.get("p")
        if self.full and there.owner is not None and not isinstance(writes[0].when.conditions[0], type(UNOWNED)):
            raise StoreUnavailable("full")
        return await self._store.write(*writes)


@pytest.mark.parametrize("alive", [True, False])
async def test_a_living_owner_whose_lease_could_not_be_extended_gets_as_long_again(alive):
    store = Full(await leased())

    async def attempt(now, *, spare=False):
        terms = {"owner": "me too", "now": now, "until": now + 15, "claimable": ("",), "running": "RUNNING"}
        return await claim(store, "p", **terms, alive=lambda _owner: alive, spare=spare)

    if alive:
        assert await attempt(20) == Held("me", 35, unanswered=True)
        assert await attempt(25, spare=True) == Held("me", 40, unanswered=True)
        store.full = False
        assert await attempt(30, spare=True) == Held("me", 45)
        there = await store.get("p")
        assert (there.owner, there.epoch, there.lease_until) == ("me", 3, 45), "it is still its owner's"
        assert await attempt(40) == Held("me", 45)
        assert isinstance(await attempt(46), Claimed), "it has written nothing"
    else:
        with pytest.raises(StoreUnavailable):
            await attempt(20)
        store.full = False
        assert isinstance(await attempt(21, spare=True), Claimed), "the dead write nothing any more"
