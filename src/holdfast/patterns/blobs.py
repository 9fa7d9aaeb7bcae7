"""Blobs of the user: bytes that are stored once and read piece by piece, and a small typed value to pass around."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any, Final

from msgspec import Struct

from holdfast.coordination.offload import BlobMissing, offload, stream
from holdfast.duration import Duration, milliseconds
from holdfast.errors import ConfigurationError, InvalidInput, NotFound
from holdfast.items import ABSENT, ALWAYS, HEAD, AnyOf, Delete, Expired, Item, Put
from holdfast.kernel.runtime import Connect, Declares, Runtime
from holdfast.persist import write_for_caller
from holdfast.ports import Blobs
from holdfast.references import Reference, keeper

PARTITION_PREFIX: Final = "blob#"


class Blob(Struct, frozen=True):
    """Bytes in the app's home, by their SHA-256. Typed JSON like any other value: pass it to workflows, keep it in
    documents.
    """

    sha256: str
    size_bytes: int
    compressed: bool


class BlobShelf:
    """The blobs of an app: ``app.blobs``."""

    def __init__(self, connect: Connect) -> None:
        self._connect = connect

    async def put(self, data: bytes, *, keep: Duration | None = None) -> Blob:
        """Store ``data``, durably when this returns (G1), and return its name.

        It stays for ``keep``, or until it is forgotten. The same bytes are stored once, however often they are put, and
        stay for the longest of the requested times.
        """
        opened, blobs = self._place()
        given: Any = data  # whatever its annotation says
        if not isinstance(given, bytes):
            raise InvalidInput(f"a blob must be bytes, got {type(given).__name__}; encode it first")
        now = opened.clock.now_ms()
        reference = await offload(given, blobs, now)
        expires_at = None if keep is None else now + milliseconds(keep)
        longer = ALWAYS if expires_at is None else AnyOf((ABSENT, Expired(expires_at)))
        item = Item(PARTITION_PREFIX + reference.digest, body=keeper(reference), expires_at=expires_at)
        await write_for_caller(opened.home.store, Put(item, longer), ours=lambda _kept_for_longer: True)
        return Blob(reference.digest, reference.size_bytes, reference.compressed)

    async def read(self, blob: Blob) -> AsyncIterator[bytes]:
        """Its bytes, piece by piece, checked against their digest at the end.

        Raises ``NotFound`` if it was not kept that long, ``StoreUnusable`` if the stored bytes are damaged.
        """
        _, blobs = self._place()
        try:
            async for piece in stream(Reference(blob.sha256, blob.size_bytes, blob.compressed), blobs):
                yield piece
        except BlobMissing:
            raise NotFound(f"there is no blob {blob.sha256}: it was kept for a shorter time, or forgotten") from None

    async def forget(self, blob: Blob) -> None:
        """Allow it to expire, for everyone who put these bytes. They are collected a day later at the earliest."""
        opened, _ = self._place()
        await opened.home.store.write(Delete(PARTITION_PREFIX + blob.sha256, HEAD))

    def _place(self) -> tuple[Runtime, Blobs]:
        opened = self._connect()
        if opened.home.blobs is None:
            raise ConfigurationError(f"the home {opened.home.url} has no place for blobs")
        return opened, opened.home.blobs


def shelf_of(app: Declares) -> BlobShelf:
    """The blobs of an app."""
    return BlobShelf(app.runtime)
