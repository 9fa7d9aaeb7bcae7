"""Sets whose order is the same in every process: workflow bodies get these, because replay must repeat their loops.

The order of a plain set of text differs from one process to the next. A steady one is a set in every other respect: an
instance of ``set``, equal to a plain one, and as fast. It iterates over the decoded members in the order of canonical
JSON, and over later ones in the order of adding. So do the sets that its methods and operators return.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from collections.abc import Set as AbstractSet
from copy import deepcopy
from datetime import date
from itertools import chain
from typing import Any, Final, Self
from uuid import UUID

from holdfast.codec.jsontext import canonical_by_parts

SORTED_AS_THEY_ARE: Final = frozenset({str, int, float, bytes, date, UUID})
"""Types whose values canonical JSON sorts as Python does."""


def in_order(members: Iterable[Any]) -> list[Any]:
    """The members of a set in the order of canonical JSON; in their own order, if JSON cannot carry them.

    >>> in_order({10, 9}), in_order({None, "a"})
    ([9, 10], ['a', None])
    """
    found = list(members)
    kinds = set(map(type, found))
    try:
        if len(kinds) <= 1 and kinds <= SORTED_AS_THEY_ARE:
            return sorted(found)
        return sorted(found, key=lambda member: (canonical_by_parts(member), type(member).__qualname__))
    except Exception:  # noqa: BLE001 - a body may put anything into a set
        return found


def _ordered(members: Iterable[Any]) -> Iterable[Any]:
    """The members to add. A plain set has no order that would be the same elsewhere."""
    return in_order(members) if type(members) in (set, frozenset) else members


def _is_set(value: object) -> bool:
    return isinstance(value, AbstractSet)


class _Steady:
    """The methods of both kinds that return a new set."""

    __slots__ = ()

    def __iter__(self) -> Iterator[Any]:
        raise NotImplementedError

    def _like(self, members: Iterable[Any]) -> Any:
        kind: Any = type(self)
        return kind(members)

    def copy(self) -> Any:
        return self._like(self)

    def union(self, *others: Iterable[Any]) -> Any:
        return self._like(chain(self, *map(_ordered, others)))

    def intersection(self, *others: Iterable[Any]) -> Any:
        left = set(self).intersection(*others)
        return self._like([member for member in self if member in left])

    def difference(self, *others: Iterable[Any]) -> Any:
        left = set(self).difference(*others)
        return self._like([member for member in self if member in left])

    def symmetric_difference(self, other: Iterable[Any], /) -> Any:
        others = list(_ordered(other))
        mine, theirs = set(self), set(others)
        return self._like(
            [
                *(member for member in self if member not in theirs),
                *(member for member in others if member not in mine),
            ]
        )

    def __or__(self, value: Any, /) -> Any:
        return self.union(value) if _is_set(value) else NotImplemented

    def __and__(self, value: Any, /) -> Any:
        return self.intersection(value) if _is_set(value) else NotImplemented

    def __sub__(self, value: Any, /) -> Any:
        return self.difference(value) if _is_set(value) else NotImplemented

    def __xor__(self, value: Any, /) -> Any:
        return self.symmetric_difference(value) if _is_set(value) else NotImplemented

    def __ror__(self, value: Any, /) -> Any:
        return self._like(_ordered(value)) | self if _is_set(value) else NotImplemented

    def __rand__(self, value: Any, /) -> Any:
        return self._like(_ordered(value)) & self if _is_set(value) else NotImplemented

    def __rsub__(self, value: Any, /) -> Any:
        return self._like(_ordered(value)) - self if _is_set(value) else NotImplemented

    def __rxor__(self, value: Any, /) -> Any:
        return self._like(_ordered(value)) ^ self if _is_set(value) else NotImplemented

    def __copy__(self) -> Any:
        return self.copy()

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        return self._like([deepcopy(member, memo) for member in self])

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (list(self),)


class SteadySet(_Steady, set[Any]):
    """A set that keeps the order of its members."""

    __slots__ = ("_order",)

    def __init__(self, members: Iterable[Any] = ()) -> None:
        super().__init__()
        self._order: dict[Any, None] = {}
        self.update(members)

    def __iter__(self) -> Iterator[Any]:
        return iter(self._order)

    def __repr__(self) -> str:
        return f"{{{', '.join(map(repr, self._order))}}}" if self._order else "set()"

    def add(self, element: Any, /) -> None:
        super().add(element)
        self._order.setdefault(element)

    def remove(self, element: Any, /) -> None:
        super().remove(element)
        del self._order[frozenset(element) if _is_set(element) else element]  # a set finds its frozen twin

    def discard(self, element: Any, /) -> None:
        if element in self:
            self.remove(element)

    def pop(self) -> Any:
        for first in self:
            self.remove(first)
            return first
        raise KeyError("pop from an empty set")

    def clear(self) -> None:
        super().clear()
        self._order.clear()

    def update(self, *others: Iterable[Any]) -> None:
        for member in list(chain.from_iterable(map(_ordered, others))):
            self.add(member)

    def intersection_update(self, *others: Iterable[Any]) -> None:
        self._become(self.intersection(*others))

    def difference_update(self, *others: Iterable[Any]) -> None:
        self._become(self.difference(*others))

    def symmetric_difference_update(self, other: Iterable[Any], /) -> None:
        self._become(self.symmetric_difference(other))

    def _become(self, other: SteadySet) -> SteadySet:
        self.clear()
        self.update(other)
        return self

    def __ior__(self, value: Any, /) -> Any:
        return self._become(self | value) if _is_set(value) else NotImplemented

    def __iand__(self, value: Any, /) -> Any:
        return self._become(self & value) if _is_set(value) else NotImplemented

    def __isub__(self, value: Any, /) -> Any:
        return self._become(self - value) if _is_set(value) else NotImplemented

    def __ixor__(self, value: Any, /) -> Any:
        return self._become(self ^ value) if _is_set(value) else NotImplemented


class SteadyFrozenSet(_Steady, frozenset[Any]):
    """A frozenset that keeps the order of its members."""

    __slots__ = ("_order",)
    _order: tuple[Any, ...]

    def __new__(cls, members: Iterable[Any] = ()) -> Self:
        order = tuple(dict.fromkeys(_ordered(members)))
        made = super().__new__(cls, order)
        made._order = order
        return made

    def __iter__(self) -> Iterator[Any]:
        return iter(self._order)

    def __repr__(self) -> str:
        return f"frozenset({{{', '.join(map(repr, self._order))}}})" if self._order else "frozenset()"


PLAIN: Final[dict[type, type]] = {SteadySet: set, SteadyFrozenSet: frozenset}
"""The types that steady ones replace."""
