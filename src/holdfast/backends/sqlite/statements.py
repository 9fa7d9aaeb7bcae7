"""Writes and reads as SQL statements.

The text of a statement depends only on its shape: which table, which fields, which kind of condition. It is put
together from the blocks below once per shape and then found in a dictionary. Values are parameters, always.
"""

from __future__ import annotations

from typing import Final, TypeVar

from msgspec import UNSET

from holdfast.backends.sqlite.conditions import Shape, Value, holds_of_nothing, shape_of, sql_of
from holdfast.bounded import Bounded
from holdfast.items import HEAD, Delete, Put, Update

Key = TypeVar("Key")
Text = TypeVar("Text")

MAX_TEXTS: Final = 2000
"""Programs use some dozens of shapes. A program with an endless number of shapes only pays for compiling again."""

# ── Reads ───────────────────────────────────────────────────────────────────────────────────────────────────────────

# The fields of an item in the order of ``Item``, without partition and sort key.
FIELDS: Final = "revision, status, owner, lease_until, epoch, due_at, expires_at, body"

# One head. A placeholder has no revision and counts as absent.
GET_HEAD: Final = f"SELECT {FIELDS} FROM holdfast_heads WHERE partition = ? AND revision IS NOT NULL"

# One other item. The head's number stands in for the partition.
GET_ENTRY: Final = f"""
SELECT {FIELDS} FROM holdfast_entries
WHERE head = (SELECT number FROM holdfast_heads WHERE partition = ?) AND sort = ?
"""

# The items of one partition except its head, from the sort key ?2 up to, but without, ?3. Text is compared byte by
# byte, which for UTF-8 is the order of code points, as in Python (https://sqlite.org/datatype3.html#collation).
QUERY_ENTRIES: Final = f"""
SELECT sort, {FIELDS} FROM holdfast_entries
WHERE head = (SELECT number FROM holdfast_heads WHERE partition = ?1) AND sort >= ?2 AND sort < ?3
ORDER BY sort LIMIT ?4
"""

# The same with the head: one statement, so that head and entries are of one moment.
QUERY: Final = f"""
SELECT '@' AS sort, {FIELDS} FROM holdfast_heads
WHERE partition = ?1 AND revision IS NOT NULL AND '@' >= ?2 AND '@' < ?3
UNION ALL {QUERY_ENTRIES}
"""

# Heads to check until ?1, earliest first, behind the place (?2, ?3): a row value makes the cursor exact even if
# many heads are due at the same time (https://sqlite.org/rowvalue.html#scrolling_window_queries).
DUE: Final = f"""
SELECT look_at, number, partition, {FIELDS} FROM holdfast_heads
WHERE look_at <= ?1 AND (look_at, number) > (?2, ?3)
ORDER BY look_at, number LIMIT ?4
"""

# The start of a scan below ?1, and the lowest number.
SCAN_BOUNDS: Final = """
SELECT (SELECT max(number) FROM holdfast_heads WHERE number < ?), (SELECT min(number) FROM holdfast_heads)
"""

# The heads numbered from ?1 to ?2 whose partition lies in [?3, ?4), newest first. The plus keeps SQLite from looking
# them up by partition (https://sqlite.org/optoverview.html#uplus): it would have to read and sort them all.
SCAN: Final = f"""
SELECT number, partition, {FIELDS} FROM holdfast_heads
WHERE number BETWEEN ?1 AND ?2 AND revision IS NOT NULL
  AND +partition >= ?3 AND +partition < ?4 AND (?5 IS NULL OR status = ?5)
ORDER BY number DESC LIMIT ?6
"""

# How many heads of a kind are in each status, from the index alone.
COUNT_KIND: Final = """
SELECT status, count(*) FROM holdfast_heads INDEXED BY holdfast_heads_kind
WHERE kind = ?1 AND status IS NOT NULL GROUP BY status
"""

# The heads whose partition lies in [?1, ?2), by name.
HEADS_BY_NAME: Final = f"""
SELECT partition, {FIELDS} FROM holdfast_heads
WHERE partition >= ?1 AND partition < ?2 AND revision IS NOT NULL ORDER BY partition LIMIT ?3
"""

# The other items of the partitions in [?1, ?2), behind the place (?3, ?4). The order of the join is that of the answer
# (https://sqlite.org/optoverview.html#crossjoin), so that nothing is sorted.
ENTRIES_BY_NAME: Final = f"""
SELECT partition, sort, {", ".join(f"entries.{name}" for name in FIELDS.split(", "))}
FROM holdfast_heads AS heads CROSS JOIN holdfast_entries AS entries ON entries.head = heads.number
WHERE partition >= ?1 AND partition < ?2 AND (partition > ?3 OR sort > ?4)
ORDER BY partition, sort LIMIT ?5
"""

# Partitions with items, in the order of creation behind the number ?1; unneeded placeholders are left out.
PARTITIONS: Final = """
SELECT number, partition FROM holdfast_heads
WHERE number > ?1 AND (
    revision IS NOT NULL OR EXISTS (SELECT 1 FROM holdfast_entries WHERE head = holdfast_heads.number))
ORDER BY number LIMIT ?2
"""

# Tables of the user's own in the same file: names that begin with "sqlite_" are SQLite's
# (https://sqlite.org/fileformat2.html#intschema), those that begin with "holdfast_" ours.
FOREIGN_TABLES: Final = """
SELECT name FROM sqlite_schema
WHERE type = 'table' AND substr(name, 1, 7) <> 'sqlite_' AND substr(name, 1, 9) <> 'holdfast_' ORDER BY name
"""

# ── Writes ──────────────────────────────────────────────────────────────────────────────────────────────────────────
# Numbered parameters first; those of the condition follow with the next free numbers
# (https://sqlite.org/lang_expr.html#varparam). {braces} are filled in with blocks of this module, nothing else.

_EXCLUDED: Final = """
    revision = excluded.revision, status = excluded.status, owner = excluded.owner,
    lease_until = excluded.lease_until, epoch = excluded.epoch, due_at = excluded.due_at,
    expires_at = excluded.expires_at, body = excluded.body"""

# A head that may be new. One statement for a missing row, a placeholder and a head
# (https://sqlite.org/lang_upsert.html).
_PUT_HEAD: Final = f"""
INSERT INTO holdfast_heads (partition, {FIELDS}) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)
ON CONFLICT (partition) DO UPDATE SET {_EXCLUDED}
WHERE revision IS NULL OR ({{condition}})
"""

# The same if it must be new: the upsert's registers and its triggers for updates would double what the row costs.
# Inserts nothing in place of a placeholder, which FILL_PLACEHOLDER does.
_PUT_NEW_HEAD: Final = f"""
INSERT INTO holdfast_heads (partition, {FIELDS}) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)
ON CONFLICT (partition) DO NOTHING
"""

# Another item that may be new. Inserts nothing if there is no row with the head's number: see ADD_PLACEHOLDER.
_PUT_ENTRY: Final = f"""
INSERT INTO holdfast_entries (head, sort, {FIELDS})
SELECT number, ?10, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9 FROM holdfast_heads WHERE partition = ?1
ON CONFLICT (head, sort) DO UPDATE SET {_EXCLUDED}
WHERE {{condition}}
"""

# The same if it must be new: the commonest write, a journal segment.
_PUT_NEW_ENTRY: Final = f"""
INSERT INTO holdfast_entries (head, sort, {FIELDS})
SELECT number, ?10, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9 FROM holdfast_heads WHERE partition = ?1
ON CONFLICT (head, sort) DO NOTHING
"""

_ALL_FIELDS: Final = """
    revision = ?2, status = ?3, owner = ?4, lease_until = ?5, epoch = ?6, due_at = ?7, expires_at = ?8, body = ?9"""

FILL_PLACEHOLDER: Final = f"UPDATE holdfast_heads SET {_ALL_FIELDS} WHERE partition = ?1 AND revision IS NULL"

_THIS_HEAD: Final = "partition = ?1 AND revision IS NOT NULL"
_THIS_ENTRY: Final = "head = (SELECT number FROM holdfast_heads WHERE partition = ?1) AND sort = {sort}"

# An item in place of one that must exist.
_REPLACE_HEAD: Final = f"UPDATE holdfast_heads SET {_ALL_FIELDS} WHERE {_THIS_HEAD} AND ({{condition}})"
_REPLACE_ENTRY: Final = (
    f"UPDATE holdfast_entries SET {_ALL_FIELDS} WHERE {_THIS_ENTRY.format(sort='?10')} AND ({{condition}})"
)

# Some fields of an item that must exist.
_UPDATE_HEAD: Final = f"""
UPDATE holdfast_heads SET revision = revision + ?2, epoch = epoch + ?3{{fields}}
WHERE {_THIS_HEAD} AND ({{condition}})"""
_UPDATE_ENTRY: Final = f"""
UPDATE holdfast_entries SET revision = revision + ?3, epoch = epoch + ?4{{fields}}
WHERE {_THIS_ENTRY.format(sort="?2")} AND ({{condition}})"""
_RETURNING: Final = f" RETURNING {FIELDS}"

_DELETE_ENTRY: Final = f"DELETE FROM holdfast_entries WHERE {_THIS_ENTRY.format(sort='?2')} AND ({{condition}})"

# A head is deleted if nothing depends on its number; else it stays as a placeholder.
_DELETE_HEAD: Final = f"""
DELETE FROM holdfast_heads WHERE {_THIS_HEAD} AND ({{condition}})
  AND NOT EXISTS (SELECT 1 FROM holdfast_entries WHERE head = holdfast_heads.number)
"""
_EMPTY_HEAD: Final = f"""
UPDATE holdfast_heads SET revision = NULL, status = NULL, owner = NULL, lease_until = NULL, epoch = NULL,
    due_at = NULL, expires_at = NULL, body = NULL
WHERE {_THIS_HEAD} AND ({{condition}})
"""

# Provides the number for the entries of a partition that has no head yet.
ADD_PLACEHOLDER: Final = "INSERT INTO holdfast_heads (partition) VALUES (?) ON CONFLICT (partition) DO NOTHING"

# ── Expiry ──────────────────────────────────────────────────────────────────────────────────────────────────────────
# The entries of expired heads, then those heads, then entries that expired on their own; ?1 is now, ?2 the limit.

PURGE: Final = (
    """
DELETE FROM holdfast_entries WHERE number IN (
    SELECT holdfast_entries.number FROM holdfast_heads JOIN holdfast_entries ON head = holdfast_heads.number
    WHERE holdfast_heads.expires_at <= ?1 LIMIT ?2)
""",
    """
DELETE FROM holdfast_heads WHERE number IN (
    SELECT number FROM holdfast_heads
    WHERE expires_at <= ?1 AND NOT EXISTS (SELECT 1 FROM holdfast_entries WHERE head = holdfast_heads.number)
    LIMIT ?2)
""",
    """
DELETE FROM holdfast_entries WHERE number IN (SELECT number FROM holdfast_entries WHERE expires_at <= ?1 LIMIT ?2)
""",
)

# Placeholders whose entries are gone.
PURGE_PLACEHOLDERS: Final = """
DELETE FROM holdfast_heads WHERE number IN (
    SELECT number FROM holdfast_heads
    WHERE revision IS NULL AND NOT EXISTS (SELECT 1 FROM holdfast_entries WHERE head = holdfast_heads.number)
    LIMIT ?)
"""

# Blobs whose time is over and to which no item refers, and their pieces with them; ?1 is now, ?2 the limit.
COLLECT_BLOBS: Final = """
DELETE FROM holdfast_blobs WHERE number IN (
    SELECT number FROM holdfast_blobs AS old
    WHERE keep_until <= ?1
      AND NOT EXISTS (SELECT 1 FROM holdfast_heads WHERE blob = old.digest)
      AND NOT EXISTS (SELECT 1 FROM holdfast_entries WHERE blob = old.digest)
    LIMIT ?2)
"""

# The others are needed: they are not checked again for ?2 milliseconds.
KEEP_BLOBS: Final = "UPDATE holdfast_blobs SET keep_until = ?1 + ?2 WHERE keep_until <= ?1"

# ── Compiling ───────────────────────────────────────────────────────────────────────────────────────────────────────


Statement = tuple[str, list[Value]]
"""A text and its parameters."""

PutKey = tuple[bool, Shape]
"""Whether it is a head, and the condition."""

UpdateKey = tuple[bool, int, bool, Shape]
"""Whether it is a head, one bit per field that is set, whether it loads, and the condition."""

DeleteKey = tuple[str, Shape]
"""Which block, and the condition."""

# Pure functions of their keys, so one set of texts serves every store of the process.
_put_texts: Final = Bounded[PutKey, str](MAX_TEXTS)
_update_texts: Final = Bounded[UpdateKey, str](MAX_TEXTS)
_delete_texts: Final = Bounded[DeleteKey, str](MAX_TEXTS)


def put_statement(write: Put) -> Statement:
    """Changes one row if the condition holds; none if it does not, or if an entry's head has no row yet."""
    item = write.item
    parameters: list[Value] = [
        item.partition,
        item.revision,
        item.status,
        item.owner,
        item.lease_until,
        item.epoch,
        item.due_at,
        item.expires_at,
        item.body,
    ]
    is_head = item.sort == HEAD
    if not is_head:
        parameters.append(item.sort)
    key: PutKey = (is_head, shape_of(write.when, parameters))
    return _put_texts.get(key) or _put_texts.setdefault(key, _put_text(key)), parameters


def _put_text(key: PutKey) -> str:
    is_head, shape = key
    condition = sql_of(shape)
    if not holds_of_nothing(shape):
        return (_REPLACE_HEAD if is_head else _REPLACE_ENTRY).format(condition=condition)
    if is_head:
        return _PUT_NEW_HEAD if condition == "0" else _PUT_HEAD.format(condition=condition)
    return _PUT_NEW_ENTRY if condition == "0" else _PUT_ENTRY.format(condition=condition)


def update_statement(write: Update) -> Statement:
    """Changes one row if it exists and the condition holds; with ``load`` it returns the row's new fields."""
    parameters: list[Value] = [write.partition]
    is_head = write.sort == HEAD
    if not is_head:
        parameters.append(write.sort)
    parameters.append(write.add_revision)
    parameters.append(write.add_epoch)
    # One bit per field that is set, in the order of SETTABLE.
    fields = 0
    if write.status is not UNSET:
        fields |= 1
        parameters.append(write.status)
    if write.owner is not UNSET:
        fields |= 2
        parameters.append(write.owner)
    if write.lease_until is not UNSET:
        fields |= 4
        parameters.append(write.lease_until)
    if write.due_at is not UNSET:
        fields |= 8
        parameters.append(write.due_at)
    if write.expires_at is not UNSET:
        fields |= 16
        parameters.append(write.expires_at)
    if write.body is not UNSET:
        fields |= 32
        parameters.append(write.body)
    key: UpdateKey = (is_head, fields, write.load, shape_of(write.when, parameters))
    return _update_texts.get(key) or _update_texts.setdefault(key, _update_text(key)), parameters


def _update_text(key: UpdateKey) -> str:
    is_head, fields, load, shape = key
    names = ("status", "owner", "lease_until", "due_at", "expires_at", "body")
    changed = "".join(f", {name} = ?" for bit, name in enumerate(names) if fields & 1 << bit)
    text = (_UPDATE_HEAD if is_head else _UPDATE_ENTRY).format(fields=changed, condition=sql_of(shape))
    return text + _RETURNING if load else text


def delete_statements(write: Delete) -> tuple[Statement, ...]:
    """To be tried in turn until one of them changes a row."""
    is_head = write.sort == HEAD
    parameters: list[Value] = [write.partition] if is_head else [write.partition, write.sort]
    shape = shape_of(write.when, parameters)
    blocks = (_DELETE_HEAD, _EMPTY_HEAD) if is_head else (_DELETE_ENTRY,)
    return tuple((_delete_text(block, shape), parameters) for block in blocks)


def _delete_text(block: str, shape: Shape) -> str:
    key = (block, shape)
    return _delete_texts.get(key) or _delete_texts.setdefault(key, block.format(condition=sql_of(shape)))


def end_of_prefix(prefix: str) -> str | bytes:
    """The least value behind every text that begins with ``prefix``, for comparisons in SQL.

    Where no such text exists, it is the empty blob: SQLite orders blobs behind text
    (https://sqlite.org/datatype3.html#sort_order).
    """
    last = len(prefix) - 1
    while last >= 0:
        following = ord(prefix[last]) + 1
        if following == 0xD800:  # surrogates are not characters: the one after U+D7FF is U+E000
            following = 0xE000
        if following <= 0x10FFFF:
            return prefix[:last] + chr(following)
        last -= 1
    return b""
