"""How followers of streams learn of appends, in this process and in others."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.kernel.listeners import Listening
from holdfast.kernel.wake import notify

if TYPE_CHECKING:
    from holdfast.kernel.runtime import Connect


class AppBell:
    """The wake-ups of an open app."""

    def __init__(self, connect: Connect) -> None:
        self._connect = connect

    def ring(self, partition: str) -> None:
        """Events were appended: news, and no work. Where each wake-up is billed (G14), other processes poll."""
        runtime = self._connect()
        runtime.wake_listeners.heard(partition)
        notify(partition, runtime.home)

    def listen(self, partition: str) -> Listening:
        """Listen for appends from now on."""
        return self._connect().wake_listeners.listen(partition)
