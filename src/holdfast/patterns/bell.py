"""How those who follow streams hear of appends, in this process and in others."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.kernel.host import announce
from holdfast.kernel.watch import Listening

if TYPE_CHECKING:
    from holdfast.kernel.runtime import Connect


class AppBell:
    """The rings of an open app."""

    def __init__(self, connect: Connect) -> None:
        self._connect = connect

    def ring(self, partition: str) -> None:
        """Something was appended: news, and no work. Where each ring is paid for (G14), others look again."""
        runtime = self._connect()
        runtime.rings.heard(partition)
        announce(partition, runtime.home)

    def listen(self, partition: str) -> Listening:
        """Hear of what is appended from now on."""
        return self._connect().rings.listen(partition)
