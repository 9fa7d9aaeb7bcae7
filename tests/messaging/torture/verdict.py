"""What must be true when everything has healed, read from the file alone."""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path

import apsw
import msgspec
from tests.messaging.torture.shop import ALONE

from holdfast.actors.record import decode_record, key_of, partition_of

MOST_TOLD = 10


def judge(file: Path, ordered: Mapping[str, int], alone: int) -> Iterator[str]:
    """Complaints about the events of each sender (so many), and about so many that stand alone."""
    with contextlib.closing(apsw.Connection(str(file))) as connection:
        books = _books(connection)
        expected = {sender: list(range(1, count + 1)) for sender, count in ordered.items()}
        for sender, numbers in expected.items():
            applied = books.pop(sender, [])
            if applied != numbers:
                yield f"{sender}: {_told(applied, numbers)}"
        applied = books.pop(ALONE, [])
        if sorted(applied) != list(range(alone)):
            yield f"alone: {_told(applied, list(range(alone)))}"
        if books:
            yield f"there are books of {sorted(books)}"
        yield from _left_over(connection)


def _books(connection: apsw.Connection) -> dict[str, list[int]]:
    query = "SELECT partition, body FROM holdfast_heads WHERE partition GLOB ? AND revision IS NOT NULL"
    found = connection.execute(query, (partition_of("Book", "*"),))
    return {key_of(str(name)): msgspec.json.decode(decode_record(body).state)["applied"] for name, body in found}


def _told(applied: list[int], expected: list[int]) -> str:
    times = Counter(applied)
    twice = [number for number in times if times[number] > 1]
    lost = [number for number in expected if number not in times]
    if not twice and not lost:
        return f"{len(applied)} were applied in the wrong order"
    return f"lost {lost[:MOST_TOLD]} ({len(lost)}), applied twice {twice[:MOST_TOLD]} ({len(twice)})"


def _left_over(connection: apsw.Connection) -> Iterator[str]:
    for sort, count in connection.execute(
        "SELECT substr(sort, 1, 2), count(*) FROM holdfast_entries WHERE substr(sort, 1, 2) IN ('o#', 'i#', 'p#') "
        "GROUP BY 1"
    ):
        yield f"{count} items {sort} are left"
    for partition, owner, due_at in connection.execute(
        "SELECT partition, owner, due_at FROM holdfast_heads WHERE owner IS NOT NULL OR due_at IS NOT NULL LIMIT 5"
    ):
        yield f"{partition} is left to {owner}, due at {due_at}"
    for (line,) in connection.execute("PRAGMA integrity_check"):
        if line != "ok":
            yield f"the file: {line}"
