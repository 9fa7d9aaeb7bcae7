"""The state patterns of an app: each method hands out one concept of the coordination layer, bound to the open home."""

from __future__ import annotations

from holdfast.opened import Opened
from holdfast.patterns.blobs import BlobShelf


class Patterns:
    """What an app offers besides workflows, actors and messages. Nothing here reads or writes before it is used.

    ``blobs`` are bytes of the user's own: ``app.blobs.put``, ``app.blobs.read``.
    """

    def __init__(self) -> None:
        self.blobs = BlobShelf(self.opened)

    def opened(self) -> Opened:
        """The open app, as the patterns see it. Raises ``ConfigurationError`` if it is not open."""
        raise NotImplementedError
