"""The state patterns of an app: each method hands out one concept of the coordination layer, bound to the open home."""

from __future__ import annotations

from holdfast.patterns.blobs import BlobShelf
from holdfast.patterns.idempotency import Idempotency
from holdfast.patterns.records import Records
from holdfast.patterns.sharing import Sharing


class Patterns(Idempotency, Records, Sharing):
    """What an app offers besides workflows, actors and messages. Nothing here reads or writes before it is used.

    ``blobs`` are bytes of the user's own: ``app.blobs.put``, ``app.blobs.read``.
    """

    def __init__(self) -> None:
        Idempotency.__init__(self)
        Records.__init__(self)
        Sharing.__init__(self)
        self.blobs = BlobShelf(self.opened)
