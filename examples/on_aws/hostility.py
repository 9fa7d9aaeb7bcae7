"""What DynamoDB does to an app on AWS and an emulator does not: refusals, lost answers, torn pages, a late index."""

from __future__ import annotations

from msgspec.structs import replace

from holdfast.testing.hostile import (
    HOSTILE,
    Cuts,
    Failures,
    Fault,
    IndexLag,
    Report,
    Rules,
    ShortPages,
    Slowness,
    Throttling,
    TornPages,
    Transactions,
)

RULES: Rules = replace(
    HOSTILE,
    transactions=Transactions(0.01),
    torn_pages=TornPages(pages=0.3, page_seconds=0.02),
    index_lag=IndexLag(2.0),
    short_pages=ShortPages(0.1),
    throttling=Throttling(0.01),
    failures=Failures(0.005, 0.005),
    slowness=Slowness(0.02, 0.1),
    cuts=Cuts(0.002, 0.002, 0.002),
)
"""Each fault many times in a run, and rarely enough that a run takes as long as without."""

WANTED = (
    Fault.THROTTLED,
    Fault.FAILED_BEFORE,
    Fault.FAILED_AFTER,
    Fault.CUT_BEFORE,
    Fault.CUT_AFTER,
    Fault.CUT_WITHIN,
    Fault.SLOW_BEFORE,
    Fault.SLOW_AFTER,
    Fault.INDEX_MISSED,
)
"""What has to happen in every run; the rest of what did is told too."""


def suffered(report: Report) -> dict[str, int]:
    """How often DynamoDB did what: what had to happen, though it did not, and all else that happened."""
    found = dict.fromkeys(WANTED, 0) | dict(report.faults)
    return {f"DynamoDB: {fault}": count for fault, count in sorted(found.items())} | {
        "requests of DynamoDB": report.requests.total()
    }
