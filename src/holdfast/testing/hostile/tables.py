"""Keys of tables and of their indexes, as far as they decide what a request touches."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from msgspec import Struct

Item = Mapping[str, Mapping[str, Any]]
"""Attributes as the API has them in JSON: a value below the name of its type."""

Place = tuple[str, str, str]
"""An item: its table, and the values of its partition key and its sort key."""

Call = Callable[[str, dict[str, Any]], Awaitable[dict[str, Any]]]
"""Performs an operation on the emulator. Raises ``LookupError`` if it is refused."""


def text_of(value: Mapping[str, Any]) -> str:
    """The value of an attribute of a key; in JSON they are all texts."""
    return str(next(iter(value.values())))


class Keys(Struct, frozen=True):
    """The names of a partition key and a sort key; the latter is empty if there is none."""

    partition: str
    sort: str = ""

    def present(self, item: Item) -> bool:
        """Whether an item has both: only then an index names it."""
        return self.partition in item and (not self.sort or self.sort in item)


class Table(Struct, frozen=True):
    """A table, its keys and those of its global secondary indexes, and what an index shows (``None``: all)."""

    name: str
    keys: Keys
    indexes: dict[str, Keys]
    shown: dict[str, frozenset[str] | None]

    def place(self, item: Item) -> Place:
        """The place of an item, or of its key."""
        return self.name, text_of(item[self.keys.partition]), text_of(item[self.keys.sort]) if self.keys.sort else ""

    def keys_of(self, index: str | None) -> Keys:
        """The keys of the table, or of an index."""
        return self.keys if index is None else self.indexes[index]


class Tables:
    """The tables of the emulator, each described once."""

    def __init__(self, call: Call) -> None:
        self._call = call
        self._known: dict[str, Table] = {}

    async def get(self, name: str) -> Table:
        """The table of this name. Raises ``LookupError`` if there is none."""
        found = self._known.get(name)
        if found is None:
            described = await self._call("DescribeTable", {"TableName": name})
            found = self._known[name] = _table(name, described["Table"])
        return found

    def forget(self, name: str) -> None:
        """It is being made, changed or deleted."""
        self._known.pop(name, None)


def _table(name: str, described: Mapping[str, Any]) -> Table:
    keys = _keys(described["KeySchema"])
    indexes = {each["IndexName"]: each for each in described.get("GlobalSecondaryIndexes", ())}
    return Table(
        name,
        keys,
        {index: _keys(each["KeySchema"]) for index, each in indexes.items()},
        {index: _shown(keys, _keys(each["KeySchema"]), each["Projection"]) for index, each in indexes.items()},
    )


def _keys(schema: list[dict[str, str]]) -> Keys:
    names = {each["KeyType"]: each["AttributeName"] for each in schema}
    return Keys(names["HASH"], names.get("RANGE", ""))


def _shown(table: Keys, index: Keys, projection: Mapping[str, Any]) -> frozenset[str] | None:
    if projection.get("ProjectionType") == "ALL":
        return None
    names = {table.partition, table.sort, index.partition, index.sort, *projection.get("NonKeyAttributes", ())}
    return frozenset(names - {""})
