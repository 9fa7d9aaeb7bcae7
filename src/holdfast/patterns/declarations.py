"""The state patterns of an app: each method returns one concept of the coordination layer, bound to the open home."""

from __future__ import annotations

from holdfast.errors import DuplicateName
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
        self.blobs = BlobShelf(self.runtime)

    def take_in_names(self, part: Patterns) -> None:
        """Add the names of a part's handlers, caches and collections: they are places in one store, and two owners of
        one name would use each other's data. Raises ``DuplicateName``.

        """
        for kind, mine, theirs in (
            ("idempotent handlers", self._idempotent, part._idempotent),
            ("cached functions", self._cached, part._cached),
        ):
            if twice := sorted(set(mine) & set(theirs)):
                raise DuplicateName(f"two {kind} have the name {twice[0]!r}; give one of them another: name=...")
        for name, source in part._sources.items():
            if self._sources.setdefault(name, source) != source:
                raise DuplicateName(f"two projections have the name {name!r}; give one of them another: name=...")
        self._documents.take_in(part._documents)
        self._streams.take_in(part._streams)
        self._idempotent |= part._idempotent
        self._cached |= part._cached
        part._idempotent, part._cached, part._sources = self._idempotent, self._cached, self._sources
