"""The check of a database file for ``holdfast doctor``."""

from __future__ import annotations

from collections.abc import Iterator

import apsw

from holdfast.backends.sqlite.connection import READER_PRAGMAS, settings_in_force
from holdfast.backends.sqlite.database import Database
from holdfast.backends.sqlite.schema import APPLICATION_ID, SCHEMA_VERSION


def problems(reader: Database) -> Iterator[str]:
    """One line for everything that is wrong, as a reader sees it. Reads the whole file."""
    yield from damage(reader, "quick_check")
    yield from settings_in_force(reader, {"application_id": APPLICATION_ID, "user_version": SCHEMA_VERSION})
    yield from (f"reading: {line}" for line in settings_in_force(reader, READER_PRAGMAS))


def damage(reader: Database, check: str = "integrity_check") -> Iterator[str]:
    """One line for each damage of the file: by default indexes are compared with their tables too
    (https://sqlite.org/pragma.html#pragma_integrity_check).
    """
    try:
        for (line,) in reader.execute(f"PRAGMA {check}").fetchall():
            if line != "ok":
                yield f"the file is damaged: {line}"
        for table, number, parent, _ in reader.execute("PRAGMA foreign_key_check").fetchall():
            yield f"row {number} of {table} refers to a missing row of {parent}"
    except apsw.CorruptError as error:  # so damaged that the check itself gives up
        yield f"the file is damaged: {error}"
