"""Statements that list heads by an index: those of one kind or subkind, and of some statuses, newest first.

An index is in the order of status and number. So each status is read by itself, no further than a page needs, and
what they have is merged.
"""

from __future__ import annotations

from typing import Final

from msgspec import Struct

from holdfast.backends.sqlite.statements import FIELDS

# The statuses that there are: each is the least one above the last, so that no row is read twice
# (https://sqlite.org/lang_with.html#recursivecte).
_STATUSES: Final = """
WITH RECURSIVE found (status) AS (
    SELECT min(status) FROM holdfast_heads INDEXED BY {index} WHERE {column} = ?1 AND status IS NOT NULL
    UNION ALL
    SELECT (SELECT min(status) FROM holdfast_heads INDEXED BY {index} WHERE {column} = ?1 AND status > found.status)
    FROM found WHERE status IS NOT NULL)
SELECT status FROM found WHERE status IS NOT NULL
"""

# The newest ?4 heads of a status below ?3.
_NUMBERS: Final = """
SELECT number FROM holdfast_heads INDEXED BY {index}
WHERE {column} = ?1 AND status = ?2 AND number < ?3 ORDER BY number DESC LIMIT ?4
"""

# The heads of the statuses in ?2, numbered from ?3 to below ?4, whose partition lies in [?5, ?6). The plus keeps SQLite
# from looking them up by partition (https://sqlite.org/optoverview.html#uplus).
_HEADS: Final = f"""
SELECT number, partition, {FIELDS} FROM holdfast_heads INDEXED BY {{index}}
WHERE {{column}} = ?1 AND status IN (SELECT value FROM json_each(?2)) AND number >= ?3 AND number < ?4
  AND +partition >= ?5 AND +partition < ?6
ORDER BY number DESC LIMIT ?7
"""


class HeadIndex(Struct, frozen=True):
    """The statements by one index."""

    statuses: str
    numbers: str
    heads: str


def _by(column: str) -> HeadIndex:
    texts = (text.format(column=column, index=f"holdfast_heads_{column}") for text in (_STATUSES, _NUMBERS, _HEADS))
    return HeadIndex(*texts)


KINDS: Final = _by("kind")
SUBKINDS: Final = _by("subkind")


def index_for(prefix: str) -> tuple[HeadIndex, str]:
    """The index for partitions with a prefix that names a kind, and what to look for in it.

    >>> index_for("wf#")[1], index_for("wf#checkout#order-")[1]
    ('wf#', 'wf#checkout#')
    """
    kind, _, rest = prefix.partition("#")
    name, separator, _ = rest.partition("#")
    return (SUBKINDS, f"{kind}#{name}#") if separator else (KINDS, f"{kind}#")
