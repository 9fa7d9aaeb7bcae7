"""The file: one record a line, as JSON. The first describes the file, the last has the counts and the checksum.

    {"kind":"header","format":1,"home":"sqlite:///shop.db","exported_at":1767225600000}
    {"kind":"blob","digest":"9f86…","data":"…","last":true}
    {"kind":"item","partition":"wf#checkout#order-17","sort":"@",…,"body":"…"}
    {"kind":"end","counts":{"partitions":1,"items":1,"blobs":1},"sha256":"…"}

Bytes are in base64. A blob comes before the first item that refers to it, in pieces. The content of a file was meant
for one home, secrets and callbacks included: it is readable by its owner alone.

A sealed file (format 2) begins with a header that says so and has the file's name; every further line is one of
these records, sealed for this file and its place in it:

    {"kind":"header","format":2,"home":"sqlite:///shop.db","exported_at":1767225600000,"sealed":"0af1…"}
    {"kind":"sealed","data":"…"}
"""

from __future__ import annotations

from typing import Final

import msgspec
from msgspec import Struct

from holdfast.items import HEAD, Item

FORMAT: Final = 1
"""Raised when a reader of today could not read, or would misread, a later file."""

SEALED_FORMAT: Final = 2
"""The format of a sealed file."""

PIECE_BYTES: Final = 1024 * 1024


class Counts(Struct, frozen=True):
    """How much there is."""

    partitions: int = 0
    items: int = 0
    blobs: int = 0


class Moved(Struct, frozen=True):
    """What was moved, and what was not: one line for each item that was left behind."""

    counts: Counts
    left_behind: tuple[str, ...] = ()


class Header(Struct, frozen=True, tag_field="kind", tag="header"):
    """The description of the file. ``exported_at`` is in milliseconds; ``home`` is for people. ``salt`` is the home's,
    if it had one; ``sealed`` is the name for which everything behind the header is sealed, if it is.
    """

    format: int
    home: str
    exported_at: int
    salt: str = ""
    sealed: str = ""


class BlobPiece(Struct, frozen=True, tag_field="kind", tag="blob"):
    """Some bytes of a blob as it is stored, in order."""

    digest: str
    data: bytes
    last: bool


class ItemRecord(Struct, frozen=True, tag_field="kind", tag="item"):
    """An item, field by field: see ``items.Item``."""

    partition: str
    sort: str = HEAD
    revision: int = 0
    status: str = ""
    owner: str | None = None
    lease_until: int | None = None
    epoch: int = 0
    due_at: int | None = None
    expires_at: int | None = None
    body: bytes = b""

    @classmethod
    def of(cls, item: Item) -> ItemRecord:
        """The record of an item."""
        return cls(**{name: getattr(item, name) for name in Item.__struct_fields__})

    def item(self) -> Item:
        """The item."""
        return Item(**{name: getattr(self, name) for name in Item.__struct_fields__})


class End(Struct, frozen=True, tag_field="kind", tag="end"):
    """How much there was, and the SHA-256 of every line before this one."""

    counts: Counts
    sha256: str


class SealedRecord(Struct, frozen=True, tag_field="kind", tag="sealed"):
    """Another record, sealed."""

    data: bytes


Record = Header | BlobPiece | ItemRecord | End

encode: Final = msgspec.json.Encoder().encode
decode_sealed: Final = msgspec.json.Decoder(SealedRecord).decode
_decoder: Final = msgspec.json.Decoder(Record)


def decode(line: bytes) -> Record:
    """A record. Raises what ``UNREADABLE`` lists."""
    record: Record = _decoder.decode(line)
    return record


def place_in_file(sealed: str, line: int) -> str:
    """The place for which a record is sealed: its line in the file of this name."""
    return f"\nexport\n{sealed}\n{line}"
