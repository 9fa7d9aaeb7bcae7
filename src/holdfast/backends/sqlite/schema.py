"""The tables of the SQLite store, as named blocks of SQL. ``MIGRATIONS[n]`` turns version n into version n + 1.

All names begin with ``holdfast_``: users may keep tables of their own in the same file, and a transactional step may
change those, and only those.
"""

from __future__ import annotations

from typing import Final

TABLE_PREFIX: Final = "holdfast_"

APPLICATION_ID: Final = 0x484F4C44
"""Marks the file as ours (https://sqlite.org/pragma.html#pragma_application_id); reads "HOLD" in a dump."""

# One row per entity. `number` is the order of creation and the short key that entries use: an append at the end of a
# B-tree is two to four times as fast as an insert among scattered text keys. A row with `revision` NULL is a
# placeholder: it only provides the number for entries that came before their head, and counts as absent elsewhere.
# `look_at` is when the sweep should check the head; it is computed, so it can never disagree with its sources
# (https://sqlite.org/gencol.html). `body` comes last, so that reading a header never touches its overflow pages.
HEADS: Final = """
CREATE TABLE holdfast_heads (
    number      INTEGER PRIMARY KEY,
    partition   TEXT NOT NULL UNIQUE,
    revision    INTEGER,
    status      TEXT,
    owner       TEXT,
    lease_until INTEGER,
    epoch       INTEGER,
    due_at      INTEGER,
    expires_at  INTEGER,
    look_at     INTEGER AS (coalesce(lease_until, due_at)) VIRTUAL,
    body        BLOB
) STRICT
"""

# Everything that is not a head: journal segments, messages, events. A rowid table with a unique index, so that the
# bodies are appended and only the small (head, sort) pairs are kept in order.
ENTRIES: Final = """
CREATE TABLE holdfast_entries (
    number      INTEGER PRIMARY KEY,
    head        INTEGER NOT NULL REFERENCES holdfast_heads (number),
    sort        TEXT NOT NULL,
    revision    INTEGER NOT NULL,
    status      TEXT NOT NULL,
    owner       TEXT,
    lease_until INTEGER,
    epoch       INTEGER NOT NULL,
    due_at      INTEGER,
    expires_at  INTEGER,
    body        BLOB NOT NULL,
    UNIQUE (head, sort)
) STRICT
"""

# For `due`. Partial, so that a head that waits for nothing costs nothing here
# (https://sqlite.org/partialindex.html).
HEADS_DUE: Final = "CREATE INDEX holdfast_heads_due ON holdfast_heads (look_at) WHERE look_at IS NOT NULL"

# Lead `purge` to expired rows without reading the rest.
HEADS_EXPIRED: Final = """
CREATE INDEX holdfast_heads_expired ON holdfast_heads (expires_at) WHERE expires_at IS NOT NULL
"""
ENTRIES_EXPIRED: Final = """
CREATE INDEX holdfast_entries_expired ON holdfast_entries (expires_at) WHERE expires_at IS NOT NULL
"""

# Leads `purge` to placeholders that no entry needs any more.
PLACEHOLDERS: Final = "CREATE INDEX holdfast_heads_absent ON holdfast_heads (number) WHERE revision IS NULL"

# Large bodies, in pieces, so that a reader never holds a whole one; and until when they stay without a reference to
# them.
BLOBS: Final = """
CREATE TABLE holdfast_blobs (
    number     INTEGER PRIMARY KEY,
    digest     TEXT NOT NULL UNIQUE,
    keep_until INTEGER NOT NULL
) STRICT
"""
BLOB_PIECES: Final = """
CREATE TABLE holdfast_blob_pieces (
    blob  INTEGER NOT NULL REFERENCES holdfast_blobs (number) ON DELETE CASCADE,
    place INTEGER NOT NULL,
    data  BLOB NOT NULL,
    UNIQUE (blob, place)
) STRICT
"""
BLOBS_KEPT: Final = "CREATE INDEX holdfast_blobs_kept ON holdfast_blobs (keep_until)"

# The digest of the blob that a body refers to (``ports.BLOB_MARK``), so that `purge` knows which blobs are needed.
_REFERENCE: Final = """
ALTER TABLE {table} ADD COLUMN blob TEXT
    AS (CASE WHEN substr(body, 1, 1) = x'00' THEN CAST(substr(body, 2, 64) AS TEXT) END) VIRTUAL
"""
_REFERRED: Final = "CREATE INDEX {table}_blob ON {table} (blob) WHERE blob IS NOT NULL"
_REFERENCES: Final = tuple(
    text.format(table=table) for table in ("holdfast_heads", "holdfast_entries") for text in (_REFERENCE, _REFERRED)
)

# What belongs to the whole home. The salt makes its keys differ from those of other homes.
SETTINGS: Final = "CREATE TABLE holdfast_settings (name TEXT PRIMARY KEY, value TEXT NOT NULL) STRICT, WITHOUT ROWID"
DRAW_SALT: Final = "INSERT INTO holdfast_settings (name, value) VALUES ('salt', lower(hex(randomblob(16))))"

# The status of executions whose code does not fit had another name.
BLOCKED: Final = "UPDATE holdfast_heads SET status = 'BLOCKED' WHERE status = 'STRANDED'"

# The kind of an entity, and an index by which those of one kind and status are counted and listed, newest first. A
# change of status costs about 2 us more with it. Placeholders have no status and are left out.
KIND: Final = """
ALTER TABLE holdfast_heads ADD COLUMN kind TEXT AS (substr(partition, 1, instr(partition, '#'))) VIRTUAL
"""
HEADS_KIND: Final = "CREATE INDEX holdfast_heads_kind ON holdfast_heads (kind, status) WHERE status IS NOT NULL"

# The name of a partition up to its second '#', such as that of all executions of one workflow, and an index by which
# these are listed, newest first. It does not have the status: so a head is put into it once, and no change of it costs.
SUBKIND: Final = """
ALTER TABLE holdfast_heads ADD COLUMN subkind TEXT AS (
    substr(partition, 1, instr(partition, '#') + instr(substr(partition, instr(partition, '#') + 1), '#'))) VIRTUAL
"""
HEADS_SUBKIND: Final = "CREATE INDEX holdfast_heads_subkind ON holdfast_heads (subkind)"

MIGRATIONS: Final[tuple[tuple[str, ...], ...]] = (
    (HEADS, ENTRIES, HEADS_DUE, HEADS_EXPIRED, ENTRIES_EXPIRED, PLACEHOLDERS),
    (BLOBS, BLOB_PIECES, BLOBS_KEPT, *_REFERENCES),
    (SETTINGS, DRAW_SALT, BLOCKED),
    (KIND, HEADS_KIND),
    (SUBKIND, HEADS_SUBKIND),
)

SCHEMA_VERSION: Final = len(MIGRATIONS)
"""Kept in ``user_version`` (https://sqlite.org/pragma.html#pragma_user_version)."""

SALT: Final = "SELECT value FROM holdfast_settings WHERE name = 'salt'"
ADOPT_SALT: Final = "UPDATE holdfast_settings SET value = ?1 WHERE name = 'salt'"

# How many tables in the file are not ours (and whether it is new).
COUNT_TABLES: Final = "SELECT count(*) FROM sqlite_schema WHERE name LIKE 'holdfast\\_%' ESCAPE '\\'"

# How many items and blobs the file holds, for the check of a copy. The first version has no table of blobs.
COUNT_ITEMS: Final = "SELECT (SELECT count(*) FROM holdfast_heads) + (SELECT count(*) FROM holdfast_entries)"
COUNT_BLOBS: Final = "SELECT count(*) FROM holdfast_blobs"
BLOBS_SINCE_VERSION: Final = 2
