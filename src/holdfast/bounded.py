"""A dictionary that remembers what was used last, and forgets the rest."""

from __future__ import annotations

from collections import OrderedDict
from typing import TypeVar

K = TypeVar("K")
V = TypeVar("V")


class Bounded(OrderedDict[K, V]):
    """At most ``most`` entries. One that is set, or used, is the last to be forgotten.

    >>> last = Bounded[str, int](2)
    >>> last["a"], last["b"] = 1, 2
    >>> last.use("a")
    1
    >>> last["c"] = 3
    >>> list(last)
    ['a', 'c']
    """

    __slots__ = ("most",)

    def __init__(self, most: int) -> None:
        super().__init__()
        self.most = most

    def __setitem__(self, key: K, value: V) -> None:
        super().__setitem__(key, value)
        self.move_to_end(key)
        if len(self) > self.most:
            self.popitem(last=False)

    def use(self, key: K) -> V | None:
        """The entry, which counts as used now; ``None`` if there is none."""
        if (found := self.get(key)) is not None:
            self.move_to_end(key)
        return found
