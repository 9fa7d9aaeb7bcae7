"""What calls of actors use of an open app."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from holdfast.coordination.inbox import Sender
from holdfast.errors import CallFailed
from holdfast.kernel.watch import Rings

if TYPE_CHECKING:
    from holdfast.actors.definition import Kind
    from holdfast.clock import Clock
    from holdfast.failure import ErrorRecord, ErrorRegistry
    from holdfast.kernel.host import Host
    from holdfast.ports import Home
    from holdfast.telemetry import Telemetry


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


class ActorAccess:
    """An open app, as actors see it. ``host`` is there only while the app runs a worker."""

    def __init__(
        self,
        home: Home,
        kinds: dict[str, Kind],
        errors: ErrorRegistry,
        clock: Clock,
        limit_bytes: int,
        sender: Sender,
        telemetry: Telemetry,
        host: Callable[[], Host | None],
    ) -> None:
        self.home = home
        self.kinds = kinds
        self._errors = errors
        self.clock = clock
        self.limit_bytes = limit_bytes
        self.sender = sender
        self.rings = Rings()
        self.backlogs = Backlogs()
        self.has_outbox = False
        self.tell = telemetry.emit
        self._host = host

    def rebuilt(self, record: ErrorRecord) -> Exception:
        """The error of a call: the same for a caller in this process as for one elsewhere."""
        return self._errors.rebuild(record, CallFailed)

    @property
    def host(self) -> Host | None:
        return self._host()
