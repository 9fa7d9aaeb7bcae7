"""What is declared once for all streams of one type."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from holdfast import ids
from holdfast.coordination.stream.following import Bell
from holdfast.coordination.stream.kinds import Kinds
from holdfast.coordination.stream.log import partition_of
from holdfast.opened import Opened


class DeclaredStreams:
    """Streams of one type. ``name`` is their name in the store; if ``ordered``, all their events have one order."""

    def __init__(self, name: str, kinds: Kinds, connect: Callable[[], Opened], bell: Bell, *, ordered: bool) -> None:
        self.name = name
        self.kinds = kinds
        self.opened = connect
        self.bell = bell
        self.ordered = ordered
        self.random = Random(ids.new_seed())
        """Of the back-off only."""

    def ring(self, partition: str) -> None:
        """Wake the followers of one stream, and of all streams."""
        self.bell.ring(partition)
        if self.ordered:
            self.bell.ring(partition_of(self.name))
