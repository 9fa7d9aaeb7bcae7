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

# What executions are found by besides their names and statuses. Triggers keep it, so it can never disagree with the
# heads, whichever release writes them.
#
# The tags of executions as `name=value`. The second index is for deletions of heads.
TAGS: Final = """
CREATE TABLE holdfast_tags (
    tag  TEXT NOT NULL,
    head INTEGER NOT NULL REFERENCES holdfast_heads (number) ON DELETE CASCADE,
    PRIMARY KEY (tag, head)
) STRICT, WITHOUT ROWID
"""
TAGS_OF_HEAD: Final = "CREATE INDEX holdfast_tags_head ON holdfast_tags (head)"

# Between which times the executions were created whose numbers are in a block of 1,024. The times are rounded outwards
# to 65.5 seconds, so that nearly every execution finds its block as it should be and writes nothing.
SPANS: Final = """
CREATE TABLE holdfast_spans (
    block    INTEGER PRIMARY KEY,
    first_at INTEGER NOT NULL,
    last_at  INTEGER NOT NULL
) STRICT
"""
BLOCK_BITS: Final = 10

# The record of an execution begins with `{"created_at":` and the time. If it has tags, they follow. Where a record
# begins otherwise, an earlier release has written it, it is a blob, or it is sealed: then it is read as JSON, if it is
# JSON. A time that cannot be read makes its block one that may hold any time.
_BEGINS: Final = "substr({row}.body, 1, 14) = x'7B22637265617465645F6174223A'"
_FIRST: Final = "CAST(CAST(substr({row}.body, 15, 16) AS TEXT) AS INTEGER)"
HAS_TIME: Final = f"({_BEGINS} AND {_FIRST} NOT BETWEEN {{since}} AND {{until}}) IS NOT TRUE"
"""Whether the execution may have been created then, as far as can be told without reading its record as JSON."""
_TAGGED: Final = f"({_BEGINS} AND instr(substr({{row}}.body, 1, 40), x'2274616773223A7B') = 0) IS NOT TRUE"
_JSON: Final = """
SELECT CASE WHEN json_valid(text) THEN text ELSE '{{}}' END FROM (
    SELECT CASE substr({row}.body, 1, 1)
        WHEN x'7B' THEN CAST({row}.body AS TEXT)
        WHEN x'00' THEN (SELECT group_concat(piece, '') FROM (
            SELECT CAST(data AS TEXT) AS piece FROM holdfast_blob_pieces
            WHERE blob = (SELECT number FROM holdfast_blobs WHERE digest = {row}.blob) ORDER BY place))
        END AS text)
"""
_CREATED_AT: Final = f"""
CASE WHEN {_BEGINS} THEN {_FIRST}
    ELSE json_extract(({_JSON}), '$.created_at') END
"""
_ADD_SPAN: Final = f"""
INSERT INTO holdfast_spans (block, first_at, last_at)
SELECT {{row}}.number >> {BLOCK_BITS}, coalesce(at, -(1 << 62)) & ~65535, coalesce(at, 1 << 62) | 65535
FROM (SELECT {_CREATED_AT} AS at) WHERE true
ON CONFLICT (block) DO UPDATE SET
    first_at = min(first_at, excluded.first_at), last_at = max(last_at, excluded.last_at)
WHERE excluded.first_at < first_at OR excluded.last_at > last_at
"""
_ADD_TAGS: Final = f"""
INSERT INTO holdfast_tags (tag, head)
SELECT key || '=' || value, {{row}}.number FROM json_each(({_JSON}), '$.tags') WHERE true ON CONFLICT DO NOTHING
"""
_IS_EXECUTION: Final = "substr({row}.partition, 1, 3) = 'wf#'"

# Conflicts are left to upserts: an `OR IGNORE` gives way to what the statement says that made the trigger fire
# (https://sqlite.org/lang_createtrigger.html).
#
# A head begins when its row is inserted, when a placeholder becomes one, and in place of one that has expired.
_EVENTS: Final = {
    "new": ("INSERT", "NEW.revision IS NOT NULL"),
    "again": (
        "UPDATE OF expires_at",
        """
        NEW.revision IS NOT NULL AND (OLD.revision IS NULL OR (OLD.expires_at IS NOT NULL AND NEW.expires_at IS NULL))
        """,
    ),
}
_TRIGGER: Final = """
CREATE TRIGGER holdfast_{name}_{what} AFTER {event} ON holdfast_heads WHEN {condition} AND {wanted}
BEGIN {action}; END
"""
FOUND_BY: Final = tuple(
    _TRIGGER.format(
        name=name,
        what=what,
        event=event,
        condition=condition,
        wanted=wanted.format(row="NEW"),
        action=action.format(row="NEW"),
    )
    for name, (event, condition) in _EVENTS.items()
    for what, wanted, action in (
        ("span", _IS_EXECUTION, _ADD_SPAN),
        ("tags", f"{_IS_EXECUTION} AND {_TAGGED}", _ADD_TAGS),
    )
)

# The triggers again, for less: most executions have no tags and fit into their block, and now that costs no more than
# to see it. All registers of a trigger are zeroed when it runs, so what the others need is behind a view, in a trigger
# of its own (https://sqlite.org/lang_createtrigger.html#instead_of_triggers).
_NO_TRIGGERS: Final = tuple(f"DROP TRIGGER holdfast_{name}_{what}" for name in _EVENTS for what in ("span", "tags"))
BEGUN: Final = "CREATE VIEW holdfast_begun AS SELECT number, body, blob FROM holdfast_heads"
FIND_BEGUN: Final = f"""
CREATE TRIGGER holdfast_find INSTEAD OF INSERT ON holdfast_begun
BEGIN {_ADD_SPAN.format(row="NEW")}; {_ADD_TAGS.format(row="NEW")}; END
"""
_IS_FOUND: Final = f"""
{_BEGINS} AND NOT {_TAGGED} AND EXISTS (
    SELECT 1 FROM holdfast_spans WHERE block = {{row}}.number >> {BLOCK_BITS} AND {_FIRST} BETWEEN first_at AND last_at)
"""
_SEE: Final = f"""
CREATE TRIGGER holdfast_see_{{name}} AFTER {{event}} ON holdfast_heads
WHEN {{condition}} AND {_IS_EXECUTION.format(row="NEW")} AND ({_IS_FOUND.format(row="NEW")}) IS NOT TRUE
BEGIN INSERT INTO holdfast_begun (number, body, blob) VALUES (NEW.number, NEW.body, NEW.blob); END
"""
SEE: Final = tuple(
    _SEE.format(name=name, event=event, condition=condition) for name, (event, condition) in _EVENTS.items()
)

_FILL_SPANS: Final = f"""
INSERT INTO holdfast_spans (block, first_at, last_at)
SELECT heads.number >> {BLOCK_BITS}, min(coalesce({_CREATED_AT.format(row="heads")}, -(1 << 62))) & ~65535,
    max(coalesce({_CREATED_AT.format(row="heads")}, 1 << 62)) | 65535
FROM holdfast_heads AS heads WHERE heads.revision IS NOT NULL AND {_IS_EXECUTION.format(row="heads")}
GROUP BY heads.number >> {BLOCK_BITS}
"""
_FILL_TAGS: Final = f"""
INSERT INTO holdfast_tags (tag, head)
SELECT key || '=' || value, heads.number
FROM holdfast_heads AS heads, json_each(({_JSON.format(row="heads")}), '$.tags')
WHERE heads.revision IS NOT NULL AND {_IS_EXECUTION.format(row="heads")} AND {_TAGGED.format(row="heads")}
ON CONFLICT DO NOTHING
"""

MIGRATIONS: Final[tuple[tuple[str, ...], ...]] = (
    (HEADS, ENTRIES, HEADS_DUE, HEADS_EXPIRED, ENTRIES_EXPIRED, PLACEHOLDERS),
    (BLOBS, BLOB_PIECES, BLOBS_KEPT, *_REFERENCES),
    (SETTINGS, DRAW_SALT, BLOCKED),
    (KIND, HEADS_KIND),
    (SUBKIND, HEADS_SUBKIND),
    (TAGS, TAGS_OF_HEAD, SPANS, *FOUND_BY, _FILL_SPANS, _FILL_TAGS),
    (*_NO_TRIGGERS, BEGUN, FIND_BEGUN, *SEE),
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
