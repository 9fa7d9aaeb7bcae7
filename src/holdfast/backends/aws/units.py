"""What reads and writes of items use, worked out from the items: DynamoDB's arithmetic without DynamoDB.

("Read and write operations", "Global secondary indexes", "Amazon DynamoDB Transactions", developer guide.)
``tests/backends/aws/test_costs.py`` compares the same writes with what DynamoDB itself reports.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from msgspec import UNSET

from holdfast.backends.aws.layout import encode, size_bytes
from holdfast.backends.aws.meter import write_units
from holdfast.items import HEAD, Item, Update, Write

READ_UNIT_BYTES: Final = 4096
NONCE: Final = bytes(8)
"""Of the length that every write has one of."""


def stored_bytes(item: Item | None, *, index_leases: bool) -> int:
    """The size that DynamoDB counts, compression included. Raises ``PayloadTooLarge`` for what would not fit."""
    return 0 if item is None else size_bytes(encode(item, NONCE, index_leases=index_leases))


def item_units(before: Item | None, after: Item | None, *, index_leases: bool) -> int:
    """The write units of an item that becomes another: the larger of both counts. Twice that in a transaction."""
    return write_units(max(stored_bytes(each, index_leases=index_leases) for each in (before, after)))


def index_units(write: Write, before: Item | None, after: Item | None, *, index_leases: bool) -> int:
    """The write units of the entries that a write adds to the indexes, takes out of them or moves in them."""
    leases = _lease_index_units(write, before, after) if index_leases else 0
    return _moved(_due_entry(before), _due_entry(after)) + leases


def units_of_read(sizes: Iterable[int]) -> int:
    """The read units of one consistent read of items of these sizes, together; one at least."""
    return max(1, -(-sum(sizes) // READ_UNIT_BYTES))


def _due_entry(item: Item | None) -> int | None:
    return item.due_at if item is not None and item.sort == HEAD else None


def _lease_index_units(write: Write, before: Item | None, after: Item | None) -> int:
    """A claim enters the head, a release takes it out; to extend a lease changes nothing there."""
    there, then = _lease_entry(before), _lease_entry(after)
    extends = isinstance(write, Update) and write.owner is UNSET and there is not None and then is not None
    return 0 if extends else _moved(there, then)


def _lease_entry(item: Item | None) -> int | None:
    return item.lease_until if item is not None and item.sort == HEAD else None


def _moved(there: int | None, then: int | None) -> int:
    """An entry that moves is taken out and put in again."""
    if there == then:
        return 0
    return 2 if there is not None and then is not None else 1
