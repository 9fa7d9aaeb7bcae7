"""The ``Blobs`` port on the store's own file: a blob is durable by the same commit as everything else of its batch."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Final

from holdfast.backends.sqlite.batch import BatchRunner
from holdfast.backends.sqlite.store import SqliteStore

PIECE_BYTES: Final = 1024 * 1024

# A writer that stores an existing blob may be about to refer to it.
KEEP: Final = "UPDATE holdfast_blobs SET keep_until = max(keep_until, ?2) WHERE digest = ?1"
ADD: Final = "INSERT INTO holdfast_blobs (digest, keep_until) VALUES (?1, ?2)"
ADD_PIECE: Final = """
INSERT INTO holdfast_blob_pieces (blob, place, data)
SELECT number, ?2, ?3 FROM holdfast_blobs WHERE digest = ?1
"""
READ_PIECE: Final = """
SELECT data FROM holdfast_blob_pieces WHERE blob = (SELECT number FROM holdfast_blobs WHERE digest = ?1) AND place = ?2
"""


class SqliteBlobs:
    """Blobs next to the items of one SQLite file."""

    def __init__(self, store: SqliteStore) -> None:
        self._store = store

    async def put(self, digest: str, data: bytes, keep_until: int) -> None:
        """See ``Blobs.put``."""

        def store(runner: BatchRunner) -> None:
            if runner.change(KEEP, (digest, keep_until)):
                return
            runner.change(ADD, (digest, keep_until))
            for place, begin in enumerate(range(0, len(data), PIECE_BYTES)):
                runner.change(ADD_PIECE, (digest, place, data[begin : begin + PIECE_BYTES]))

        await self._store.run(store)

    async def read(self, digest: str) -> AsyncIterator[bytes]:
        """See ``Blobs.read``. Each piece is a read of its own: a slow reader holds no snapshot, so the log can be
        reset.
        """
        place = 0
        while rows := self._store.rows(READ_PIECE, (digest, place)):
            yield rows[0][0]
            place += 1
