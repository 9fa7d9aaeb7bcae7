"""Writing the file of an export."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import Self

from msgspec.structs import replace

from holdfast import ids
from holdfast.coordination.sealing import Envelope
from holdfast.errors import InvalidInput, InvalidState
from holdfast.files import give_name, new_file, sync_folder
from holdfast.moving.records import (
    SEALED_FORMAT,
    Counts,
    End,
    Header,
    Record,
    SealedRecord,
    encode,
    place_in_file,
)


class RecordWriter:
    """Writes a file that is invisible before it is complete: ``with RecordWriter(path) as writer``. With an
    ``envelope`` all of it except the header is sealed.

    It uses no file that another process has put there, nor one behind a link. Raises ``InvalidState`` if the file
    exists, and ``InvalidInput`` if it cannot be created or written. Without ``finish`` nothing stays.
    """

    def __init__(self, path: Path, envelope: Envelope | None = None) -> None:
        self._path = path
        self._envelope = envelope
        self._name = ids.new_id()
        with self._writing():
            if os.path.lexists(path):
                raise self._is_there()
        self._part = path.with_name(f"{path.name}.{self._name[:12]}.part")
        self._sha256 = hashlib.sha256()
        self._lines = 0

    def __enter__(self) -> Self:
        with self._writing():
            self._file = new_file(self._part)
        return self

    def __exit__(
        self, _type: type[BaseException] | None, _error: BaseException | None, _traceback: TracebackType | None
    ) -> None:
        with suppress(OSError):  # the rest of its buffer belongs to a file that is discarded, or is written
            self._file.close()
        with suppress(FileNotFoundError):
            self._part.unlink()

    def begin(self, header: Header) -> None:
        """Write the first line."""
        if self._envelope is None:
            self._add(encode(header))
            return
        header = replace(header, format=SEALED_FORMAT, sealed=self._name)
        self._add(encode(replace(header, salt="")))
        self.write(header)

    def write(self, record: Record) -> None:
        """Add a record."""
        line = encode(record)
        if self._envelope is not None:
            line = encode(SealedRecord(self._envelope.seal(line, place_in_file(self._name, self._lines + 1))))
        self._add(line)

    def finish(self, counts: Counts) -> None:
        """Write the last line; when this returns the file is durable, and under its name."""
        self.write(End(counts, self._sha256.hexdigest()))
        with self._writing():
            self._file.flush()
            os.fsync(self._file.fileno())
            try:
                give_name(self._part, self._path)
            except FileExistsError:
                raise self._is_there() from None
            sync_folder(self._path.parent)

    def _add(self, text: bytes) -> None:
        line = text + b"\n"
        self._sha256.update(line)
        self._lines += 1
        with self._writing():
            self._file.write(line)

    def _is_there(self) -> InvalidState:
        return InvalidState(f"{self._path} exists already; name another file, or remove it")

    @contextmanager
    def _writing(self) -> Generator[None]:
        try:
            yield
        except OSError as error:
            raise InvalidInput(
                f"{self._path} cannot be written: {error.strerror or error}. Name a file in a folder that exists, "
                "that can be written and has room, and export again"
            ) from error
