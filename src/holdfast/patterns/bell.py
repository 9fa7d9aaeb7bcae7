"""How those who follow streams hear of appends, in this process and in others."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from holdfast.kernel.host import announce
from holdfast.kernel.watch import Rings

if TYPE_CHECKING:
    from holdfast.actors.access import ActorAccess


class AppBell:
    """The rings of an open app."""

    def __init__(self, connect: Callable[[], ActorAccess]) -> None:
        self._connect = connect

    def ring(self, partition: str) -> None:
        """Something was appended: news, and no work. Where each ring is paid for (G14), others look again."""
        access = self._connect()
        access.rings.heard(partition)
        announce(partition, access.home)

    def listen(self, partition: str) -> AppListening:
        """Hear of what is appended from now on."""
        return AppListening(self._connect().rings, partition)


class AppListening:
    """Somebody who waits for rings; he may leave when the app is closed already."""

    def __init__(self, rings: Rings, partition: str) -> None:
        self._rings = rings
        self._partition = partition
        self._event = rings.listen(partition)

    async def next(self, patience_seconds: float) -> None:
        """Wait for the next ring, or as long as there is patience."""
        await self._rings.next(self._event, patience_seconds)

    def leave(self) -> None:
        """Hear no more."""
        self._rings.leave(self._partition, self._event)
