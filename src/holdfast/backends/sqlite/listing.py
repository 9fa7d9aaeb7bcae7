"""Statements that list heads by an index, newest first.

A *walk* goes through an index that is in the order of the numbers, some rows at a time: all of a subkind, or all of a
kind and a status. Whatever else is wanted of a head is looked for in what the walk finds.
"""

from __future__ import annotations

from typing import Final

from msgspec import Struct

from holdfast.backends.sqlite.statements import FIELDS


class Walk(Struct, frozen=True):
    """``bound`` finds the number of the row that is ?4 rows back in the index, below ?3, and how many there are.
    ``heads`` reads those numbered from ?3 to below ?4 of the status ?2, if that is not null, whose partition lies in
    [?5, ?6). The plus keeps SQLite from looking them up by partition (https://sqlite.org/optoverview.html#uplus).
    """

    bound: str
    heads: str


def _walk(index: str, where: str) -> Walk:
    return Walk(
        bound=f"""
SELECT min(number), count(*) FROM (
    SELECT number FROM holdfast_heads INDEXED BY {index} WHERE {where} AND number < ?3 ORDER BY number DESC LIMIT ?4)
""",
        heads=f"""
SELECT number, partition, {FIELDS} FROM holdfast_heads INDEXED BY {index}
WHERE {where} AND number >= ?3 AND number < ?4 AND +partition >= ?5 AND +partition < ?6
  AND revision IS NOT NULL AND (?2 IS NULL OR +status = ?2)
ORDER BY number DESC LIMIT ?7
""",
    )


OF_SUBKIND: Final = _walk("holdfast_heads_subkind", "subkind = ?1")
OF_STATUS: Final = _walk("holdfast_heads_kind", "kind = ?1 AND status = ?2")

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


def kind_of(prefix: str) -> str:
    """The kind that a prefix with a ``#`` names.

    >>> kind_of("wf#checkout#order-")
    'wf#'
    """
    return prefix[: prefix.index("#") + 1]


def walks_for(prefix: str, status: str | None) -> list[tuple[Walk, str]]:
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
