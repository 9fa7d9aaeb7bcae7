"""Reading the file of an export, and checking that it is complete."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from holdfast.codec.jsontext import UNREADABLE
from holdfast.coordination.sealing import Envelope
from holdfast.errors import InvalidInput, StoreUnusable
from holdfast.files import open_file
from holdfast.items import Item
from holdfast.moving.records import (
    FORMAT,
    SEALED_FORMAT,
    BlobPiece,
    Counts,
    End,
    Header,
    ItemRecord,
    Record,
    decode,
    decode_sealed,
    place_in_file,
)

LONGEST_LINE_BYTES: Final = 256 * 2**20
"""A longer line is not one of our records; it would only fill the memory."""


class Filed(Struct, frozen=True):
    """A file, and the envelope that opens it if it is sealed."""

    path: Path
    envelope: Envelope | None = None

    def records(self) -> Iterator[Record]:
        """Its records, each checked by itself; the last is the end. See ``verify`` for the whole.

        Raises ``InvalidInput`` for a line that is not a record, for a version that this release does not know, for a
        file that ends too soon or continues after its end, and for a sealed one that does not open; ``StoreUnusable``
        for one that is not sealed if the envelope accepts only sealed ones.
        """
        sha256, counts = hashlib.sha256(), Counts()
        seen: str | None = None
        ended = False
        for number, line, record in self._numbered():
            match record:
                case _ if ended:
                    raise self._damaged(number, "a record behind the end")
                case ItemRecord(partition=partition):
                    counts = Counts(counts.partitions + (partition != seen), counts.items + 1, counts.blobs)
                    seen = partition
                case BlobPiece(last=last):
                    counts = Counts(counts.partitions, counts.items, counts.blobs + last)
                case End():
                    if record.sha256 != sha256.hexdigest() or record.counts != counts:
                        raise self._damaged(number, "the checksum is that of another content")
                    ended = True
                case _:
                    pass
            sha256.update(line)
            if record is not None:
                yield record
        if not ended:
            raise InvalidInput(
                f"{self.path} is cut off: its last line is missing. Copy or export it again; nothing was imported"
            )

    def verify(self, check: Callable[[Item], object] = lambda _item: None) -> End:
        """Read the file from its first byte to its last, and return its end. Raises ``InvalidInput`` if it is damaged,
        and whatever ``check`` raises for an item.
        """
        last: Record | None = None
        for record in self.records():
            last = record
            if isinstance(record, ItemRecord):
                check(record.item())
        assert isinstance(last, End)  # else it was cut off
        return last

    def header(self) -> Header:
        """The header of the file. Raises ``InvalidInput`` if it is not one of ours."""
        first = next(self.records())
        assert isinstance(first, Header)  # else it was refused
        return first

    def _numbered(self) -> Iterator[tuple[int, bytes, Record | None]]:
        """Each line with its number and its record. The first line of a sealed file only says that it is sealed."""
        header: Header | None = None
        for number, line in _lines(self.path):
            record = self._record(number, line, header)
            if header is None:
                header = self._checked(record)
                yield number, line, None if header.sealed else header
            elif isinstance(record, Header) != (number == 2 and bool(header.sealed)):
                raise self._damaged(number, "a record where none belongs")
            elif isinstance(record, Header) and replace(record, salt="") != header:
                raise self._damaged(number, "the header is that of another file")
            else:
                yield number, line, record

    def _record(self, number: int, line: bytes, header: Header | None) -> Record:
        if not line.endswith(b"\n"):
            raise self._damaged(number, "the line does not end")
        try:
            if header is None or not header.sealed or self.envelope is None:
                return decode(line)
            sealed = decode_sealed(line)
            return decode(self.envelope.open_sealed(sealed.data, place_in_file(header.sealed, number)))
        except (*UNREADABLE, StoreUnusable) as error:
            raise self._damaged(number, str(error)) from error

    def _checked(self, record: Record) -> Header:
        """The header of a file that this release reads."""
        if not isinstance(record, Header):
            raise self._damaged(1, "a record where none belongs")
        if record.format != (SEALED_FORMAT if record.sealed else FORMAT):
            raise InvalidInput(
                f"{self.path} is of format {record.format}, and this release reads format {FORMAT}, and "
                f"{SEALED_FORMAT} if it is sealed. Import it with the release that exported it, or a newer one"
            )
        if record.sealed and self.envelope is None:
            raise InvalidInput(f"{self.path} is sealed: name the app that has its seal (-a MODULE:APP)")
        if not record.sealed and self.envelope is not None:
            self.envelope.open(b"a file in the open", str(self.path))
        return record

    def _damaged(self, number: int, why: str) -> InvalidInput:
        return InvalidInput(
            f"{self.path} is damaged, or not an export of Holdfast: line {number}: {why}. Copy or export it again"
        )


def _lines(path: Path) -> Iterator[tuple[int, bytes]]:
    try:
        with open_file(path.resolve()) as file:
            number = 0
            while line := file.readline(LONGEST_LINE_BYTES):
                number += 1
                yield number, line
    except OSError as error:
        raise InvalidInput(f"{path} cannot be read: {error.strerror or error}") from error
