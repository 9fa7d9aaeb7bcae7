"""The heads of optimistic actors that this process has written last."""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from holdfast.items import Item
    from holdfast.kernel.runtime import Runtime

MOST_WARM: Final = 1_000
LARGEST_WARM_BYTES: Final = 16 * 1024
"""Together 16 MB at most."""


class Warm:
    """The heads of optimistic actors as this process has left them: a guess at what is there, which saves the read.

    It is never an answer by itself: the condition of the write that is made of it, or a read, must prove it right.
    """

    __slots__ = ("_heads",)

    def __init__(self) -> None:
        self._heads: OrderedDict[str, Item] = OrderedDict()

    def take(self, partition: str) -> Item | None:
        """What was left there, once."""
        return self._heads.pop(partition, None)

    def leave(self, head: Item) -> None:
        """It was just written."""
        if len(head.body) > LARGEST_WARM_BYTES:
            return
        self._heads[head.partition] = head
        if len(self._heads) > MOST_WARM:
            self._heads.popitem(last=False)


def warm_of(runtime: Runtime) -> Warm:
    """Those of an open app."""
    return runtime.kept.get(Warm, Warm)
