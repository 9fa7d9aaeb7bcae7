"""Renewals may overtake each other on their way to the store."""

from __future__ import annotations

import pytest

from holdfast.backends.memory import open_memory_home
from holdfast.coordination.lease import is_leased, renewal
from holdfast.errors import Refused
from holdfast.items import Item, Put


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
