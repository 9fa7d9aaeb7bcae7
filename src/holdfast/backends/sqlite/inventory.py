"""The ``Inventory`` port on one SQLite file, for moving house."""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.backends.sqlite.schema import ADOPT_SALT
from holdfast.backends.sqlite.statements import FOREIGN_TABLES, PARTITIONS
from holdfast.backends.sqlite.store import PAGE_ITEMS, SqliteStore
from holdfast.errors import InvalidInput
from holdfast.items import Item
from holdfast.ports import Partitions


class SqliteInventory:
    """The content of the file."""

    def __init__(self, store: SqliteStore) -> None:
        self._store = store

    async def partitions(self, *, after: str | None = None, limit: int = PAGE_ITEMS) -> Partitions:
        """See ``Inventory.partitions``."""
        count = max(1, min(limit, PAGE_ITEMS))
        rows = self._store.rows(PARTITIONS, (0 if after is None else _number(after), count + 1))
        cursor = str(rows[count - 1][0]) if len(rows) > count else None
        return Partitions(tuple(name for _, name in rows[:count]), cursor)

    def check_fits(self, item: Item) -> None:
        """See ``Inventory.check_fits``: everything does."""

    def strangers(self) -> Sequence[str]:
        """See ``Inventory.strangers``: the tables of transactional steps, or of other programs, in the file."""
        return tuple(f"the table {name!r}, which is yours" for (name,) in self._store.rows(FOREIGN_TABLES, ()))

    async def adopt(self, salt: str) -> None:
        """See ``Inventory.adopt``."""
        await self._store.run(lambda runner: runner.change(ADOPT_SALT, (salt,)))


def _number(cursor: str) -> int:
    try:
        return int(cursor)
    except ValueError:
        raise InvalidInput(f"{cursor!r} is not a cursor of this store") from None
