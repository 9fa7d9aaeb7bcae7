"""How much room there is in the mailboxes of actors, as far as this process knows."""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from holdfast.kernel.runtime import Runtime

MOST_BACKLOGS: Final = 10_000


class Backlogs:
    """How many more messages this process may send to an actor before it has to count those that wait there."""

    __slots__ = ("_room",)

    def __init__(self) -> None:
        self._room: OrderedDict[str, int] = OrderedDict()

    def take(self, partition: str) -> bool:
        """Use up one place; false if it is not known whether there is one."""
        room = self._room.get(partition, 0)
        if room <= 0:
            return False
        self._room[partition] = room - 1
        return True

    def learn(self, partition: str, room: int) -> None:
        """There is room for so many."""
        self._room[partition] = room
        self._room.move_to_end(partition)
        if len(self._room) > MOST_BACKLOGS:
            self._room.popitem(last=False)


def backlogs_of(runtime: Runtime) -> Backlogs:
    """Those of an open app."""
    return runtime.kept.get(Backlogs, Backlogs)
