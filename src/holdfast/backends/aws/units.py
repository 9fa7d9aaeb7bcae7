"""The units of reads and writes, calculated from the items: DynamoDB's arithmetic without DynamoDB.

("Read and write operations", "Global secondary indexes", "Amazon DynamoDB Transactions", developer guide.)
``tests/backends/aws/test_costs.py`` compares the same writes with what DynamoDB itself reports.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from holdfast.backends.aws.layout import encode, size_bytes
from holdfast.backends.aws.meter import write_units
from holdfast.items import HEAD, Item

READ_UNIT_BYTES: Final = 4096
NONCE: Final = bytes(8)
"""Of the length that every nonce has."""

MOVED_UNITS: Final = 2
"""An entry that moves is deleted and put ("Using Global Secondary Indexes in DynamoDB", developer guide)."""

CREATED_AT: Final = 10**12
"""Of the length that every time of creation has."""


def stored_bytes(item: Item | None) -> int:
    """The size that DynamoDB counts, compression included. Raises ``PayloadTooLarge`` if it does not fit."""
    return 0 if item is None else size_bytes(encode(item, NONCE, created_at=CREATED_AT))


def units_of(item: Item) -> int:
    """The write units of an item that is written as it is."""
    return write_units(stored_bytes(item))


def item_units(before: Item | None, after: Item | None) -> int:
    """The write units of an item that becomes another: the larger of the two counts. Twice that in a transaction."""
    return write_units(max(stored_bytes(each) for each in (before, after)))


def index_units(before: Item | None, after: Item | None) -> int:
    """The write units of the entry that a write adds to the index, removes from it or moves in it."""
    return entry_units(_due_entry(before), _due_entry(after))


def entry_units(there: int | None, then: int | None) -> int:
    """The write units of an entry of an index, whose place in it was ``there`` and is ``then``, if it has one."""
    if there == then:
        return 0
    return 1 if there is None or then is None else MOVED_UNITS


def units_of_read(sizes: Iterable[int]) -> int:
    """The read units of one consistent read of items of these sizes, together; at least one."""
    return max(1, -(-sum(sizes) // READ_UNIT_BYTES))


def _due_entry(item: Item | None) -> int | None:
    return item.due_at if item is not None and item.sort == HEAD else None
