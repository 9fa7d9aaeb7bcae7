"""The writes in a request, and what each of them does to the keys of an index."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from msgspec import Struct

from holdfast.testing.hostile.tables import Item, Keys, Place, Table, Tables, text_of

SINGLE_WRITES: Final = frozenset({"PutItem", "UpdateItem", "DeleteItem"})
KILOBYTE: Final = 1024


class Action(Struct, frozen=True):
    """One write: ``Put``, ``Update``, ``Delete`` or ``ConditionCheck``, and its parameters."""

    kind: str
    table: Table
    place: Place
    parameters: Mapping[str, Any]

    def changes_index(self, keys: Keys) -> bool:
        """Whether it may change what the index names."""
        if self.kind == "Update":
            return any(self._mentions(name) for name in (keys.partition, keys.sort) if name)
        return self.kind != "ConditionCheck"

    def index_partition(self, keys: Keys, before: Item | None) -> str | None:
        """The partition of the index that the item is in after the write, if in any; an update may leave it."""
        if self.kind == "Put":
            item: Item = self.parameters["Item"]
            return text_of(item[keys.partition]) if keys.present(item) else None
        stays = text_of(before[keys.partition]) if before is not None and keys.present(before) else None
        if self.kind != "Update":
            return stays
        found = self._assigned(keys.partition)
        return stays if found is None else text_of(found)

    def _mentions(self, attribute: str) -> bool:
        expression = self.parameters.get("UpdateExpression", "")
        return re.search(rf"(?<![\w#:.])({self._names(attribute)})(?!\w)", expression) is not None

    def _assigned(self, attribute: str) -> Mapping[str, Any] | None:
        expression = self.parameters.get("UpdateExpression", "")
        found = re.search(rf"(?<![\w#:.])(?:{self._names(attribute)})\s*=\s*(:\w+)", expression)
        values = self.parameters.get("ExpressionAttributeValues", {})
        return None if found is None else values.get(found[1])

    def _names(self, attribute: str) -> str:
        aliases = self.parameters.get("ExpressionAttributeNames", {})
        names = [attribute, *(alias for alias, name in aliases.items() if name == attribute)]
        return "|".join(map(re.escape, names))

    def write_units(self, before: Item | None) -> float:
        """An estimate of the units of its table: those of the larger of the item before and after."""
        sizes = [size_bytes(self.parameters.get("Item", {})), size_bytes(before or {})]
        if self.kind == "Update":
            sizes[0] = sizes[1] + size_bytes(self.parameters.get("ExpressionAttributeValues", {})) // 2
        return max(1, -(-max(sizes) // KILOBYTE))


def size_bytes(item: Item) -> int:
    """About the size of an item."""
    return sum(len(name) + len(str(next(iter(value.values()), ""))) for name, value in item.items())


async def action_of(kind: str, parameters: Mapping[str, Any], tables: Tables) -> Action:
    """The action of this kind with these parameters. Raises ``LookupError`` if it is none of a known table."""
    table = await tables.get(parameters["TableName"])
    return Action(kind, table, table.place(parameters["Item" if kind == "Put" else "Key"]), parameters)


async def transaction_of(parameters: Mapping[str, Any], tables: Tables) -> Sequence[Action]:
    """The actions of a ``TransactWriteItems``."""
    return [await action_of(kind, each, tables) for item in parameters["TransactItems"] for kind, each in item.items()]
