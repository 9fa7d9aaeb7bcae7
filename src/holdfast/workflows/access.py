"""What handles and starts use of an open app: its home, its worker if it has one, and who waits for what."""

from __future__ import annotations

import asyncio
from functools import partial
from random import Random
from typing import TYPE_CHECKING, Final, NamedTuple

from holdfast.coordination.inbox import Sender
from holdfast.errors import NotFound
from holdfast.kernel.attendance import Attendance
from holdfast.kernel.host import holds
from holdfast.workflows.record import ENDED, describe_partition, is_there
from holdfast.workflows.status import BlockedWarning

if TYPE_CHECKING:
    from holdfast.clock import Clock
    from holdfast.items import Item
    from holdfast.kernel.host import Host
    from holdfast.kernel.model import Conclusion
    from holdfast.ports import Home
    from holdfast.workflows.registry import Registry

LOOK_AGAIN_SECONDS: Final = 2.0
LOOK_AGAIN_GROWTH: Final = 1.25
"""When whoever waits looks by himself for the first time, in case a ring was lost, and how much longer each wait is
than the one before: a lost ring costs at most a quarter of what was waited anyway."""

BILLED_GROWTH: Final = 2.0
LONGEST_BILLED_SECONDS: Final = 600.0
"""The same where each look is paid for, and nobody rings for those who only wait: the end is seen late by at most as
long as it took, and never by more than ten minutes and a little."""

SCATTER: Final = 0.1
"""So much longer or shorter is a wait, so that those who began together do not look together for ever."""


class Ended(NamedTuple):
    """The status and body of an execution's head when it ended."""

    status: str
    body: bytes

    def __repr__(self) -> str:
        return f"Ended({self.status!r}, <{len(self.body)} bytes>)"


class Access:
    """An open app, as workflows see it. ``host`` is there only while the app runs a worker."""

    def __init__(self, home: Home, registry: Registry, clock: Clock, limit_bytes: int) -> None:
        self.home = home
        self.registry = registry
        self.clock = clock
        self.limit_bytes = limit_bytes
        self.sender = Sender(clock)
        self.host: Host | None = None
        self.attendance = Attendance(home)
        self._waiting: dict[str, dict[object, asyncio.Future[Ended | None]]] = {}

    def heard(self, partition: str | None) -> None:
        """Another process rang: whoever waits for that entity looks again."""
        places = tuple(self._waiting) if partition is None else (partition,)
        for place in places:
            for future in self._waiting.get(place, {}).values():
                if not future.done():
                    future.set_result(None)

    async def head(self, partition: str) -> Item:
        """The execution's head. Raises ``NotFound``, also if it has expired and waits to be purged."""
        head = await self.home.store.get(partition)
        if not is_there(head, self.clock.now_ms()):
            raise NotFound(f"there is no {describe_partition(partition)}")
        return head

    async def ended(self, partition: str) -> Ended:
        """Wait until the execution has ended, wherever it runs. If it is blocked meanwhile, the log says so, once."""
        patience_seconds = LOOK_AGAIN_SECONDS
        warn = BlockedWarning()
        while True:
            future: asyncio.Future[Ended | None] = asyncio.get_running_loop().create_future()
            self._watch(partition, future)
            try:
                if ended := await self._look(partition, future, patience_seconds, warn):
                    return ended
            finally:
                self._unwatch(partition, future)
            self.attendance.report(describe_partition(partition), partition, self.host)
            if self.home.billed:
                longer = min(BILLED_GROWTH * patience_seconds, LONGEST_BILLED_SECONDS)
                scattered = Random(f"{partition}/{self.sender.name}/{longer}").uniform(1 - SCATTER, 1 + SCATTER)
                patience_seconds = longer * scattered
            else:
                patience_seconds *= LOOK_AGAIN_GROWTH

    async def _look(
        self, partition: str, future: asyncio.Future[Ended | None], patience_seconds: float, warn: BlockedWarning
    ) -> Ended | None:
        """One look, and one wait if it has not ended; ``None`` means: look again."""
        if self.host is not None and holds(self.host, partition):
            return await future  # this process will see the end itself, or hear that it lost the entity
        head = await self.head(partition)
        if head.status in ENDED:
            return Ended(head.status, head.body)
        warn(head)
        timer = asyncio.get_running_loop().call_later(patience_seconds, _give_up, future)
        try:
            return await future
        finally:
            timer.cancel()

    def _watch(self, partition: str, future: asyncio.Future[Ended | None]) -> None:
        self._waiting.setdefault(partition, {})[future] = future
        if self.host is not None:
            self.host.watchers.add(partition, future, partial(_tell, future))

    def _unwatch(self, partition: str, future: asyncio.Future[Ended | None]) -> None:
        waiting = self._waiting.get(partition, {})
        waiting.pop(future, None)
        if not waiting:
            self._waiting.pop(partition, None)
        if self.host is not None:
            self.host.watchers.remove(partition, future)


def _tell(future: asyncio.Future[Ended | None], conclusion: Conclusion | None) -> None:
    if not future.done():
        future.set_result(None if conclusion is None else Ended(conclusion.status, conclusion.body))


def _give_up(future: asyncio.Future[Ended | None]) -> None:
    if not future.done():
        future.set_result(None)
