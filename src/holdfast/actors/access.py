"""What calls of actors use of an open app."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from holdfast.coordination.inbox import Sender
from holdfast.coordination.salt import salt_of
from holdfast.errors import CallFailed
from holdfast.kernel.attendance import Attendance
from holdfast.kernel.watch import Rings

if TYPE_CHECKING:
    from holdfast.actors.kind import Kind
    from holdfast.failure import ErrorRecord, ErrorRegistry
    from holdfast.items import Item
    from holdfast.kernel.host import Host, Limits
    from holdfast.opened import Opened


MOST_BACKLOGS: Final = 10_000

MOST_WARM: Final = 1_000
LARGEST_WARM_BYTES: Final = 16 * 1024
"""Together 16 MB at most."""


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


class ActorAccess:
    """An open app, as actors see it. ``host`` is there only while the app runs a worker."""

    def __init__(
        self,
        opened: Opened,
        kinds: dict[str, Kind],
        errors: ErrorRegistry,
        sender: Sender,
        host: Callable[[], Host | None],
        limits: Limits,
    ) -> None:
        self.home = opened.home
        self.kinds = kinds
        self._errors = errors
        self.clock = opened.clock
        self.limit_bytes = opened.limit_bytes
        self.sender = sender
        self.rings = Rings()
        self.backlogs = Backlogs()
        self.warm = Warm()
        self.attendance = Attendance(opened.home)
        self.has_outbox = False
        self.tell = opened.tell
        self._host = host
        self._limits = limits
        self._salt: str | None = None

    def rebuilt(self, record: ErrorRecord) -> Exception:
        """The error of a call: the same for a caller in this process as for one elsewhere."""
        return self._errors.rebuild(record, CallFailed)

    async def salt(self) -> str:
        """What goes into every key that is handed out by this home, and by no other."""
        if self._salt is None:
            self._salt = await salt_of(self.home)
        return self._salt

    @property
    def method_seconds(self) -> float:
        """How long a method may run that does not say so: as long as others would wait for a process that hangs."""
        limits = self._limits if self.host is None else self.host.limits
        return limits.lease_ms / 1000

    @property
    def host(self) -> Host | None:
        return self._host()
