"""The ``Blobs`` port on a dictionary."""

from __future__ import annotations

from collections.abc import AsyncIterator

from holdfast.backends.memory.data import MemoryData, StoredBlob


class MemoryBlobs:
    """Blobs next to the items of one simulated database."""

    def __init__(self, data: MemoryData) -> None:
        self._data = data

    async def put(self, digest: str, data: bytes, keep_until: int) -> None:
        """See ``Blobs.put``."""
        there = self._data.blobs.get(digest)
        if there is None:
            self._data.blobs[digest] = StoredBlob(data, keep_until)
        else:
            self._data.blobs[digest] = StoredBlob(there.data, max(there.keep_until, keep_until))

    async def read(self, digest: str) -> AsyncIterator[bytes]:
        """See ``Blobs.read``."""
        if (there := self._data.blobs.get(digest)) is not None:
            yield there.data
