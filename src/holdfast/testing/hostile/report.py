"""What happened, counted by kind."""

from __future__ import annotations

from collections import Counter
from enum import StrEnum
from typing import Any


class Fault(StrEnum):
    """A kind of fault that a request met."""

    TRANSACTION_CANCELLED = "transaction cancelled by another"
    WRITE_CONFLICTED = "write refused because of a transaction"
    READ_CONFLICTED = "transactional read cancelled by a write"
    TORN = "items of one transaction shown in part"
    PASSED = "page shows a write, and not an earlier one"
    KEY_THROTTLED = "key or partition of the table throttled"
    INDEX_THROTTLED = "write throttled by a partition of an index"
    THROTTLED = "throttled at random"
    UNPROCESSED = "batch left unprocessed in part"
    PAGE_CUT_SHORT = "page ended early"
    INDEX_MISSED = "entry of an index not shown yet"
    INDEX_STALE = "old entry of an index still shown"
    FAILED_BEFORE = "status 5xx, not applied"
    FAILED_AFTER = "status 5xx, applied"
    SLOW_BEFORE = "slow, before it was applied"
    SLOW_AFTER = "slow, after it was applied"
    CUT_BEFORE = "connection cut, not applied"
    CUT_AFTER = "connection cut, applied"
    CUT_WITHIN = "connection cut within the answer"
    RECORD_LATE = "record of a stream passed by others"
    RECORD_AGAIN = "record of a stream sent again"


class Report:
    """How many requests came, by operation, and how often each fault happened."""

    def __init__(self) -> None:
        self.requests: Counter[str] = Counter()
        self.faults: Counter[Fault] = Counter()

    def require(self, minimum: int, *faults: Fault) -> None:
        """Fail unless each of these has happened at least ``minimum`` times: a test of faults that never came proves
        nothing.
        """
        rare = [f"{fault} {self.faults[fault]} times" for fault in faults if self.faults[fault] < minimum]
        if rare:
            raise AssertionError(f"each fault was to happen at least {minimum} times, but {', '.join(rare)}")

    def as_json(self) -> dict[str, Any]:
        """The same, as JSON has it."""
        return {"requests": dict(self.requests), "faults": {str(fault): count for fault, count in self.faults.items()}}

    def __str__(self) -> str:
        faults = ", ".join(f"{fault}: {count}" for fault, count in sorted(self.faults.items())) or "no faults"
        return f"{self.requests.total()} requests; {faults}"
