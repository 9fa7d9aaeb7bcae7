"""A page of items with some of them as they were some time ago."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from holdfast.testing.hostile.key_conditions import Rank, conditions_of, rank
from holdfast.testing.hostile.tables import Item, Place, Table

Past = Mapping[Place, Item | None]
"""Items as they were; ``None`` for those that were not there."""


class Shown(Struct, frozen=True):
    """A changed answer, and which items in it are missing, and which are old."""

    answer: dict[str, Any]
    missing: frozenset[Place] = frozenset()
    old: frozenset[Place] = frozenset()


class PastPage:
    """The page that answers a ``Query`` or a ``Scan``, with the past put into it.

    Where it cannot be known what the past page would hold, items are left out, or stay as they are: a filter is not
    evaluated, and a page of selected attributes is not changed.
    """

    def __init__(self, parameters: Mapping[str, Any], table: Table) -> None:
        self._parameters = parameters
        self._table = table
        self._index: str | None = parameters.get("IndexName")
        self._keys = table.keys_of(self._index) if self._index is None or self._index in table.indexes else None

    def shown(self, answer: dict[str, Any], past: Past) -> Shown:
        """The answer, as far as it can be, as of this past."""
        keys = self._keys
        partial = "ProjectionExpression" in self._parameters or self._parameters.get("Select") == "COUNT"
        if not past or keys is None or partial or "Items" not in answer:
            return Shown(answer)
        items: list[Item] = []
        missing: set[Place] = set()
        there: set[Place] = set()
        old: set[Place] = set()
        for item in answer["Items"]:
            place = self._table.place(item)
            if place not in past:
                items.append(item)
            elif (before := self._as_it_was(place, past)) is not None and self._rank(before) == self._rank(item):
                items.append(before)
                there.add(place)
                if before != item:
                    old.add(place)
            else:
                missing.add(place)
        for place in past.keys() - there:
            before = self._as_it_was(place, past)
            if before is not None and self._fits(before, answer, len(items)):
                items.append(before)
                old.add(place)
        if old and keys.sort and "KeyConditionExpression" in self._parameters:
            items.sort(key=self._rank, reverse=self._backwards)
        if not missing and not old:
            return Shown(answer)
        changed = answer | {"Items": items, "Count": len(items)}
        return Shown(changed, frozenset(missing), frozenset(old))

    @property
    def _backwards(self) -> bool:
        return not self._parameters.get("ScanIndexForward", True)

    def _as_it_was(self, place: Place, past: Past) -> Item | None:
        before = past[place]
        if before is None or "FilterExpression" in self._parameters or self._keys is None:
            return None
        if not self._keys.present(before):
            return None
        names = None if self._index is None else self._table.shown[self._index]
        return before if names is None else {name: value for name, value in before.items() if name in names}

    def _rank(self, item: Item) -> Rank:
        return rank(item[self._keys.sort]) if self._keys is not None and self._keys.sort else (0, b"")

    def _fits(self, item: Item, answer: Mapping[str, Any], count: int) -> bool:
        """Whether it would be on this page, and not on another one."""
        conditions = conditions_of(self._parameters)
        if count >= self._parameters.get("Limit", count + 1):
            return False
        if not all(condition.holds(item) for condition in conditions):
            return False
        first, last = self._parameters.get("ExclusiveStartKey"), answer.get("LastEvaluatedKey")
        if not conditions:  # the order of a scan is known to the emulator alone
            return first is None and last is None
        if self._backwards:
            first, last = last, first
        place = self._rank(item)
        return (first is None or self._rank(first) < place) and (last is None or place < self._rank(last))
