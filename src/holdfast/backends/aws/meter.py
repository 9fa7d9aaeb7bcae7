"""The cost of requests: requests and capacity units make the bill."""

from __future__ import annotations

from typing import Any, Final

from msgspec import Struct

READ_OPERATIONS: Final = frozenset({"BatchGetItem", "GetItem", "Query", "Scan", "TransactGetItems"})

SINGLE_WRITES: Final = frozenset({"PutItem", "UpdateItem"})

WRITE_UNIT_BYTES: Final = 1024


class Usage(Struct):
    """The usage of one kind of request so far. Units are DynamoDB's: 1 KB written, 4 KB read consistently."""

    requests: int = 0
    write_units: float = 0.0
    read_units: float = 0.0


class Meter:
    """Counts every attempt, failed ones included. One per store; ``usage`` is by DynamoDB's operation."""

    def __init__(self) -> None:
        self.usage: dict[str, Usage] = {}
        self.largest_item_bytes = 0
        """The size of the largest item written alone, as its bill tells it: rounded up to a kilobyte, and two more
        for its entry in an index. An update is billed by the whole item, of which its sender may know only a part."""

    def sent(self, operation: str) -> None:
        """A request is sent."""
        self._of(operation).requests += 1

    def answered(self, operation: str, answer: dict[str, Any]) -> None:
        """DynamoDB's answer says how many units the request used, indexes included."""
        told: Any = answer.get("ConsumedCapacity") or {}
        tables: list[dict[str, Any]] = [told] if "CapacityUnits" in told else list(told)
        units = sum(each["CapacityUnits"] for each in tables)
        self._add(operation, units)
        if operation in SINGLE_WRITES:
            self.largest_item_bytes = max(self.largest_item_bytes, int(units * WRITE_UNIT_BYTES))

    def refused(self, operation: str, item_bytes: int) -> None:
        """A refused write is billed by the size of the existing item, and its answer does not say so.

        ("Read and write operations", developer guide: a condition that does not hold consumes write units too.)
        """
        self._add(operation, write_units(item_bytes))

    def cancelled(self, operation: str, sizes: list[int]) -> None:
        """So is a cancelled transaction, twice, for each of its items."""
        self._add(operation, sum(2 * write_units(size) for size in sizes))

    @property
    def total(self) -> Usage:
        """All operations together."""
        every = self.usage.values()
        return Usage(
            requests=sum(each.requests for each in every),
            write_units=sum(each.write_units for each in every),
            read_units=sum(each.read_units for each in every),
        )

    def reset(self) -> None:
        """Reset all counters."""
        self.usage.clear()

    def _of(self, operation: str) -> Usage:
        return self.usage.setdefault(operation, Usage())

    def _add(self, operation: str, units: float) -> None:
        usage = self._of(operation)
        if operation in READ_OPERATIONS:
            usage.read_units += units
        else:
            usage.write_units += units


def write_units(size_bytes: int) -> int:
    """The units of writing this many bytes: each begun kilobyte, at least one."""
    return max(1, -(-size_bytes // WRITE_UNIT_BYTES))
