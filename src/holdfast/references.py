"""Bodies that are not values: references to blobs, for offloaded values, and sealed bytes."""

from __future__ import annotations

from typing import Final

from msgspec import Struct

from holdfast.errors import StoreUnusable
from holdfast.ports import BLOB_MARK

SEAL_MARK: Final = b"\2"
"""The beginning of a sealed body or blob."""

FIRST_SEAL_MARK: Final = b"\1"
"""Its beginning if an earlier release has sealed it."""

SEAL_MARKS: Final = (SEAL_MARK, FIRST_SEAL_MARK)

KEEPS: Final = b"k"
"""The end of a reference that replaces no body: it keeps a blob of the user."""

DIGEST_CHARACTERS: Final = 64


class Reference(Struct, frozen=True):
    """The place of a body. ``size_bytes`` is the size of the body itself; a blob is compressed if that makes it
    smaller.
    """

    digest: str
    size_bytes: int
    compressed: bool

    def encode(self) -> bytes:
        """The body that replaces it: the mark, the digest, how it is packed, and its size."""
        return b"%b%b%b%d" % (BLOB_MARK, self.digest.encode(), b"z" if self.compressed else b"-", self.size_bytes)


def keeper(reference: Reference) -> bytes:
    """A body that keeps a blob, and does not replace it."""
    return reference.encode() + KEEPS


def kept_in(body: bytes) -> Reference | None:
    """The blob that a body keeps, if the body does nothing else."""
    return reference_in(body.removesuffix(KEEPS)) if body.startswith(BLOB_MARK) and body.endswith(KEEPS) else None


def reference_in(body: bytes) -> Reference | None:
    """The reference that replaces a body; ``None`` if it is a body like any other. Raises ``StoreUnusable``."""
    if not body.startswith(BLOB_MARK) or body.endswith(KEEPS):
        return None
    digest_end = len(BLOB_MARK) + DIGEST_CHARACTERS
    try:
        digest, size_bytes = body[len(BLOB_MARK) : digest_end].decode(), int(body[digest_end + 1 :])
    except ValueError as error:
        raise StoreUnusable(
            f"a reference to a blob is damaged ({error}). Restore it from a backup of the home"
        ) from error
    return Reference(digest, size_bytes, body[digest_end : digest_end + 1] == b"z")
