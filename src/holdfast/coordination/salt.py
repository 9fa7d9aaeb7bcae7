"""The salt of a home: what makes the keys that it hands out differ from those of every other home (G10)."""

from __future__ import annotations

from holdfast import ids
from holdfast.errors import Refused
from holdfast.items import ABSENT, Item, Put
from holdfast.persist import write_for_caller
from holdfast.ports import SALT_PARTITION, SALT_SORT, Home, Store


async def salt_of(home: Home) -> str:
    """The salt of a home: known since it was opened, or in an item that the first process to need it creates."""
    if home.salt:
        return home.salt
    return await kept_salt(home.store) or await _draw(home.store)


class HomeSalt:
    """The salt of the home of an open app, looked up once."""

    __slots__ = ("_salt",)

    def __init__(self) -> None:
        self._salt = ""

    async def of(self, home: Home) -> str:
        """See ``salt_of``."""
        if not self._salt:
            self._salt = await salt_of(home)
        return self._salt


async def kept_salt(store: Store) -> str:
    """The salt that a store keeps in an item; empty if there is none yet."""
    item = await store.get(SALT_PARTITION, SALT_SORT)
    return "" if item is None else item.status


async def _draw(store: Store) -> str:
    drawn = Item(SALT_PARTITION, SALT_SORT, status=ids.new_id())
    try:
        await write_for_caller(store, Put(drawn, ABSENT), ours=lambda there: there == drawn)
    except Refused as refused:  # another process was faster
        assert refused.item is not None
        return refused.item.status
    return drawn.status
