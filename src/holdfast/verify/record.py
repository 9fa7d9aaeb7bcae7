"""The record of what a run has made: a file that is written before each thing is made, and deleted after all are gone.

So a run that was killed can be removed later, and nothing is removed that is not in a record.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from holdfast.errors import ConfigurationError
from holdfast.ids import new_id

PREFIX: Final = "verify-"
NAME_CHARACTERS: Final = 12
"""48 random bits, within the twenty characters of a prefix: the name of another home is not met by chance."""

FOLDER: Final = Path(".holdfast")


class Record(Struct, frozen=True, kw_only=True):
    """What a run has made, or was about to make, in which account and where; ``mark`` is a tag on all of it."""

    prefix: str
    mark: str
    account: str
    region: str
    url: str
    began: str
    code_bucket: str | None = None
    stack: bool = False

    @property
    def path(self) -> Path:
        """The file."""
        return FOLDER / f"{self.prefix}.json"

    def begin(self) -> None:
        """Write the file, which must not be there."""
        FOLDER.mkdir(exist_ok=True)
        with self.path.open("xb") as file:
            _write(file.fileno(), self)

    def with_bucket(self, name: str) -> Record:
        """The record, on the disk too, with the bucket of the code."""
        return _replaced(replace(self, code_bucket=name))

    def with_stack(self) -> Record:
        """The record, on the disk too, with the stack."""
        return _replaced(replace(self, stack=True))

    def end(self) -> None:
        """Delete the file: everything is gone."""
        self.path.unlink(missing_ok=True)


def new_names() -> tuple[str, str]:
    """A prefix and a mark that cannot be guessed."""
    return PREFIX + new_id()[:NAME_CHARACTERS], new_id()


def left_behind() -> list[Record]:
    """The records of runs that have not removed what they made; perhaps some still go on."""
    return [read_record(path) for path in sorted(FOLDER.glob(f"{PREFIX}*.json"))]


def read_record(path: Path) -> Record:
    """The record in a file. Raises ``ConfigurationError``."""
    try:
        record = msgspec.json.decode(path.read_bytes(), type=Record)
    except (OSError, msgspec.DecodeError) as error:
        raise ConfigurationError(f"{path} is no record of holdfast aws verify: {error}") from None
    if not record.prefix.startswith(PREFIX):
        raise ConfigurationError(f"{path} names the prefix {record.prefix!r}, which holdfast aws verify never makes")
    return record


def _replaced(record: Record) -> Record:
    fresh = record.path.with_suffix(".new")
    with fresh.open("wb") as file:
        _write(file.fileno(), record)
    fresh.replace(record.path)
    return record


def _write(descriptor: int, record: Record) -> None:
    os.write(descriptor, msgspec.json.format(msgspec.json.encode(record)))
    os.fsync(descriptor)
