"""What a body may be that is no value: a reference to a blob, where it was put aside, or sealed bytes."""

from __future__ import annotations

from typing import Final

from msgspec import Struct

from holdfast.errors import StoreUnusable
from holdfast.ports import BLOB_MARK

SEAL_MARK: Final = b"\2"
"""What a body, or a blob, begins with that is sealed."""

FIRST_SEAL_MARK: Final = b"\1"
"""What it begins with if an earlier release has sealed it."""

SEAL_MARKS: Final = (SEAL_MARK, FIRST_SEAL_MARK)

KEEPS: Final = b"k"
"""What a reference ends with that stands for nothing: it keeps a blob of the user's own."""

DIGEST_CHARACTERS: Final = 64


class Reference(Struct, frozen=True):
    """Where a body is. ``size_bytes`` is that of the body itself; a blob is compressed if that makes it smaller."""

    digest: str
    size_bytes: int
    compressed: bool

    def encode(self) -> bytes:
        """The body that stands in for it: the mark, the digest, how it is packed, and its size."""
        return b"%b%b%b%d" % (BLOB_MARK, self.digest.encode(), b"z" if self.compressed else b"-", self.size_bytes)


def keeper(reference: Reference) -> bytes:
    """A body that keeps a blob, and does not stand for it."""
    return reference.encode() + KEEPS


def kept_in(body: bytes) -> Reference | None:
    """The blob that a body keeps, if that is all it does."""
    return reference_in(body.removesuffix(KEEPS)) if body.startswith(BLOB_MARK) and body.endswith(KEEPS) else None


def reference_in(body: bytes) -> Reference | None:
    """The reference that stands for a body; ``None`` if it is a body like any other. Raises ``StoreUnusable``."""
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
