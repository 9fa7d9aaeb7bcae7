"""Statements that list heads by an index, newest first.

A *walk* goes through an index that is in the order of the numbers, some rows at a time: all of a subkind, or all of a
kind and a status. Whatever else is wanted of a head is looked for in what the walk finds.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from msgspec import Struct

from holdfast.backends.sqlite.database import Row
from holdfast.backends.sqlite.schema import HAS_TIME
from holdfast.backends.sqlite.statements import FIELDS


class Walk(Struct, frozen=True):
    """``bound`` finds the number of the row that is ?4 rows back in the index, below ?3, and how many there are.
    ``heads`` reads those numbered from ?3 to below ?4 of the status ?2, if that is not null, whose partition lies in
    [?5, ?6). ``names`` reads the names of those of them that have all the tags in ?8 and were created from ?9 until
    ?10, as far as can be told. The plus keeps SQLite from looking them up by partition
    (https://sqlite.org/optoverview.html#uplus).
    """

    bound: str
    heads: str
    names: str


# Tags of which a head lacks one.
_LACKS: Final = """
    SELECT 1 FROM json_each(?8) AS wanted
    WHERE NOT EXISTS (SELECT 1 FROM holdfast_tags WHERE tag = wanted.value AND head = holdfast_heads.number)
"""
_HAS_TIME: Final = HAS_TIME.format(row="holdfast_heads", since="?9", until="?10")


def _walk(source: str, where: str, number: str = "number") -> Walk:
    among = f"""
FROM {source} WHERE {where} AND {number} >= ?3 AND {number} < ?4 AND +partition >= ?5 AND +partition < ?6
  AND revision IS NOT NULL AND (?2 IS NULL OR +status = ?2)
"""
    newest = f"ORDER BY {number} DESC LIMIT ?7"
    return Walk(
        bound=f"""
SELECT min(number), count(*) FROM (
    SELECT {number} AS number FROM {source.partition(" CROSS ")[0]} WHERE {where} AND {number} < ?3
    ORDER BY {number} DESC LIMIT ?4)
""",
        heads=f"SELECT number, partition, {FIELDS} {among} {newest}",
        names=f"SELECT number, partition {among} AND NOT EXISTS ({_LACKS}) AND {_HAS_TIME} {newest}",
    )


OF_SUBKIND: Final = _walk("holdfast_heads INDEXED BY holdfast_heads_subkind", "subkind = ?1")
OF_STATUS: Final = _walk("holdfast_heads INDEXED BY holdfast_heads_kind", "kind = ?1 AND status = ?2")
OF_TAG: Final = _walk("holdfast_tags CROSS JOIN holdfast_heads ON number = head", "tag = ?1", "head")
OF_ALL: Final = _walk("holdfast_heads NOT INDEXED", "true")

# The newest block below ?1 in which there may be executions of the times [?2, ?3), and the newest below ?1 in which
# there are none.
NEWEST_BLOCK: Final = """
SELECT max(block) FROM holdfast_spans WHERE block < ?1 AND last_at >= ?2 AND first_at < ?3
"""
OTHER_BLOCK: Final = """
SELECT max(block) FROM holdfast_spans WHERE block < ?1 AND NOT (last_at >= ?2 AND first_at < ?3)
"""

FORGET_TAGS: Final = "DELETE FROM holdfast_tags"

# The statuses of a kind: each is the least one above the last, so that few rows are read
# (https://sqlite.org/lang_with.html#recursivecte).
STATUSES: Final = """
WITH RECURSIVE found (status) AS (
    SELECT min(status) FROM holdfast_heads INDEXED BY holdfast_heads_kind WHERE kind = ?1 AND status IS NOT NULL
    UNION ALL
    SELECT (
        SELECT min(status) FROM holdfast_heads INDEXED BY holdfast_heads_kind
        WHERE kind = ?1 AND status > found.status)
    FROM found WHERE status IS NOT NULL)
SELECT status FROM found WHERE status IS NOT NULL
"""

# The numbers of the newest ?4 heads of a kind and a status below ?3.
NUMBERS: Final = """
SELECT number FROM holdfast_heads INDEXED BY holdfast_heads_kind
WHERE kind = ?1 AND status = ?2 AND number < ?3 ORDER BY number DESC LIMIT ?4
"""

# The heads of a kind and the statuses in ?2, numbered from ?3 to below ?4, whose partition lies in [?5, ?6).
HEADS: Final = f"""
SELECT number, partition, {FIELDS} FROM holdfast_heads INDEXED BY holdfast_heads_kind
WHERE kind = ?1 AND status IN (SELECT value FROM json_each(?2)) AND number >= ?3 AND number < ?4
  AND +partition >= ?5 AND +partition < ?6
ORDER BY number DESC LIMIT ?7
"""


Walks = list[tuple[Walk, str]]
"""Walks, and what each looks for in its index."""


def kind_of(prefix: str) -> str:
    """The kind that a prefix with a ``#`` names.

    >>> kind_of("wf#checkout#order-")
    'wf#'
    """
    return prefix[: prefix.index("#") + 1]


def walks_for(prefix: str, status: str | None) -> Walks:
    """The walks on which all is that has this prefix and status, and what each looks for in its index.

    >>> [name for _, name in walks_for("wf#checkout#order-", "FAILED")]
    ['wf#checkout#', 'wf#']
    >>> walks_for("wf#", None)
    []
    """
    kind = kind_of(prefix)
    name, separator, _ = prefix[len(kind) :].partition("#")
    walks = [(OF_SUBKIND, f"{kind}{name}#")] if separator else []
    return walks if status is None else [*walks, (OF_STATUS, kind)]


def furthest(
    read: Callable[[str, Sequence[Any]], list[Row]], walks: Walks, status: str | None, behind: int, most_rows: int
) -> tuple[int, Walk, str] | None:
    """The walk that goes furthest back in ``most_rows`` rows, and to where: 0 is its end. ``None``: nothing is left."""
    stretches: list[tuple[int, Walk, str]] = []
    for walk, name in walks:
        ((last, seen),) = read(walk.bound, (name, status, behind, most_rows))
        if last is None:
            return None
        stretches.append((last if seen == most_rows else 0, walk, name))
    return min(stretches, key=lambda stretch: stretch[0])
