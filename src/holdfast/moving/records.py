"""The file: one record a line, as JSON. The first says what it is, the last how much there is, and its checksum.

    {"kind":"header","format":1,"home":"sqlite:///shop.db","exported_at":1767225600000}
    {"kind":"blob","digest":"9f86…","data":"…","last":true}
    {"kind":"item","partition":"wf#checkout#order-17","sort":"@",…,"body":"…"}
    {"kind":"end","counts":{"partitions":1,"items":1,"blobs":1},"sha256":"…"}

Bytes are in base64. A blob comes before the first item that refers to it, in pieces. What is in a file was meant for
one home, secrets and callbacks included: it is readable by its owner alone.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import Final, Self

import msgspec
from msgspec import Struct

from holdfast.errors import InvalidInput, InvalidState
from holdfast.items import HEAD, Item

FORMAT: Final = 1
"""Raised when a reader of today could not read, or would misread, what is written then."""

PIECE_BYTES: Final = 1024 * 1024
LONGEST_LINE_BYTES: Final = 256 * 2**20
"""A longer line is no record of ours; it would only fill the memory."""


class Counts(Struct, frozen=True):
    """How much there is."""

    partitions: int = 0
    items: int = 0
    blobs: int = 0


class Moved(Struct, frozen=True):
    """What was moved, and what was not: one line for each thing that was left behind."""

    counts: Counts
    left_behind: tuple[str, ...] = ()


class Header(Struct, frozen=True, tag_field="kind", tag="header"):
    """What the file is. ``exported_at`` is in milliseconds; ``home`` is for people. ``salt`` is that of the home, if it
    had one.
    """

    format: int
    home: str
    exported_at: int
    salt: str = ""


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


Record = Header | BlobPiece | ItemRecord | End

_encode: Final = msgspec.json.Encoder().encode
_decoder: Final = msgspec.json.Decoder(Record)


class RecordWriter:
    """Writes a file that nobody sees before it is whole: ``with RecordWriter(path) as writer``.

    Raises ``InvalidState`` if the file is there, and ``InvalidInput`` if it cannot be made or written. Left without
    ``finish``, nothing stays.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        with self._writing():
            if path.exists():
                raise InvalidState(f"{path} is there already; name another file, or remove it")
        self._part = path.with_name(f"{path.name}.part")
        self._sha256 = hashlib.sha256()

    def __enter__(self) -> Self:
        with self._writing():
            descriptor = os.open(self._part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        self._file = os.fdopen(descriptor, "wb")
        return self

    def __exit__(
        self, _type: type[BaseException] | None, _error: BaseException | None, _traceback: TracebackType | None
    ) -> None:
        with suppress(OSError):  # what is left in its buffer belongs to a file that is thrown away, or is written
            self._file.close()
        with suppress(FileNotFoundError):
            self._part.unlink()

    def write(self, record: Record) -> None:
        """Add a record."""
        line = _encode(record) + b"\n"
        self._sha256.update(line)
        with self._writing():
            self._file.write(line)

    def finish(self, counts: Counts) -> None:
        """Write the last line; when this returns the file is durable, and under its name."""
        self.write(End(counts, self._sha256.hexdigest()))
        with self._writing():
            self._file.flush()
            os.fsync(self._file.fileno())
            self._part.rename(self._path)
            folder = os.open(self._path.parent, os.O_RDONLY)
            try:
                os.fsync(folder)
            finally:
                os.close(folder)

    @contextmanager
    def _writing(self) -> Generator[None]:
        try:
            yield
        except OSError as error:
            raise InvalidInput(
                f"{self._path} cannot be written: {error.strerror or error}. Name a file in a folder that is there, "
                "that can be written and has room, and export again"
            ) from error


def read_records(path: Path) -> Iterator[Record]:
    """The records of a file, each checked by itself; the last is the end. See ``verify`` for the whole.

    Raises ``InvalidInput`` for what is no record, for a version that this release does not know, and for a file that
    ends too soon or goes on after its end.
    """
    sha256, counts = hashlib.sha256(), Counts()
    seen: str | None = None
    ended = False
    for number, line in _lines(path):
        record = _record(path, number, line)
        if ended or (number == 1) != isinstance(record, Header):
            raise _damaged(path, number, "a record where none belongs")
        match record:
            case Header(format=version) if version != FORMAT:
                raise InvalidInput(
                    f"{path} is of format {version}, and this release reads format {FORMAT}. Import it with the "
                    "release that exported it, or a newer one"
                )
            case ItemRecord(partition=partition):
                counts = Counts(counts.partitions + (partition != seen), counts.items + 1, counts.blobs)
                seen = partition
            case BlobPiece(last=last):
                counts = Counts(counts.partitions, counts.items, counts.blobs + last)
            case End():
                if record.sha256 != sha256.hexdigest() or record.counts != counts:
                    raise _damaged(path, number, "the checksum is that of another content")
                ended = True
            case Header():
                pass
        sha256.update(line)
        yield record
    if not ended:
        raise InvalidInput(
            f"{path} is cut off: its last line is missing. Copy or export it again; nothing was imported"
        )


def verify(path: Path, check: Callable[[Item], object] = lambda _item: None) -> End:
    """Read the file from its first byte to its last, and answer its end. Raises ``InvalidInput`` if it is damaged, and
    whatever ``check`` raises of an item.
    """
    last: Record | None = None
    for record in read_records(path):
        last = record
        if isinstance(record, ItemRecord):
            check(record.item())
    assert isinstance(last, End)  # else it was cut off
    return last


def header_of(path: Path) -> Header:
    """What the file is. Raises ``InvalidInput`` if it is none of ours."""
    first = next(read_records(path))
    assert isinstance(first, Header)  # else it was refused
    return first


def _lines(path: Path) -> Iterator[tuple[int, bytes]]:
    try:
        with path.open("rb") as file:
            number = 0
            while line := file.readline(LONGEST_LINE_BYTES):
                number += 1
                yield number, line
    except OSError as error:
        raise InvalidInput(f"{path} cannot be read: {error}") from error


def _record(path: Path, number: int, line: bytes) -> Record:
    if not line.endswith(b"\n"):
        raise _damaged(path, number, "the line does not end")
    try:
        record: Record = _decoder.decode(line)
        return record
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise _damaged(path, number, str(error)) from error


def _damaged(path: Path, number: int, why: str) -> InvalidInput:
    return InvalidInput(f"{path} is damaged, or no export of Holdfast: line {number}: {why}. Copy or export it again")
