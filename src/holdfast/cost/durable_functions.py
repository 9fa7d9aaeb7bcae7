"""AWS Lambda Durable Functions: operations, data written, data retained ("AWS Lambda pricing"; "Lambda quotas").

What is metered as an operation: a step, 1 and 1 for each retry; a wait, 1; a callback, 3 and 1 for each retry; a map or
parallel, 1 and 1 for each branch. The start is not counted here, in its favour: the price pages do not mention it.
"""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from typing import Final

from msgspec import Struct

from holdfast.cost.bill import NO_COMPUTE, Bill, Compute, line
from holdfast.cost.compute import compute_lines
from holdfast.cost.prices import US_EAST_1, PriceList

MOST_OPERATIONS: Final = 3_000
MOST_WRITTEN_KB: Final = 100 * 1024
MOST_PAYLOAD_KB: Final = 256
MOST_RETENTION_DAYS: Final = 90

KB_PER_GB: Final = 1_000_000
DAYS_PER_MONTH: Final = 30

OFFLOADS_ABOVE_KB: Final = 20
"""From here on the data go to S3 by a serializer of the user, and 1 KB of reference stays."""
REFERENCE_KB: Final = 1


class Work(Struct, frozen=True, kw_only=True):
    """The work of one execution. ``written_kb`` are the results of its operations, one entry each."""

    steps: int = 0
    retries: int = 0
    waits: int = 0
    callbacks: int = 0
    branches: Sequence[int] = ()
    written_kb: Sequence[Decimal | int] = ()
    retention_days: int = 0

    @property
    def operations(self) -> int:
        """As AWS meters them."""
        return self.steps + self.retries + self.waits + 3 * self.callbacks + sum(1 + each for each in self.branches)


def execution(work: Work, compute: Compute = NO_COMPUTE, prices: PriceList = US_EAST_1) -> Bill:
    """One execution, with everything it writes inside the service."""
    written_gb = Decimal(sum(work.written_kb)) / KB_PER_GB
    kept = written_gb * work.retention_days / DAYS_PER_MONTH
    return Bill(
        "AWS Lambda Durable Functions",
        (
            line("Durable Functions: operations", work.operations, prices.durable_operation),
            line("Durable Functions: data written", written_gb, prices.durable_gb_written),
            line("Durable Functions: data retained", kept, prices.durable_gb_month),
            *compute_lines(compute, prices),
        ),
        over=_over(work),
    )


def checkpoint(size_kb: int, prices: PriceList = US_EAST_1) -> Bill:
    """One step's checkpoint; the body of a larger one is in S3."""
    offloaded = size_kb > OFFLOADS_ABOVE_KB
    written_gb = Decimal(REFERENCE_KB if offloaded else size_kb) / KB_PER_GB
    body = (line("S3: body", 1, prices.object_write),) if offloaded else ()
    return Bill(
        f"checkpoint of {size_kb} KB",
        (
            line("Durable Functions: operation", 1, prices.durable_operation),
            line("Durable Functions: data written", written_gb, prices.durable_gb_written),
            *body,
        ),
    )


def replay(prices: PriceList = US_EAST_1) -> Bill:
    """Continuing after a wait: the operation that was awaited. Reading the checkpoints again is not billed."""
    return Bill("replay", (line("Durable Functions: operation", 1, prices.durable_operation),))


def _over(work: Work) -> tuple[str, ...]:
    written = sum(work.written_kb)
    largest = max(work.written_kb, default=0)
    limits = (
        (work.operations > MOST_OPERATIONS, f"{work.operations:,} operations; an execution has {MOST_OPERATIONS:,}"),
        (written > MOST_WRITTEN_KB, f"{written:,} KB written; an execution has {MOST_WRITTEN_KB:,}"),
        (largest > MOST_PAYLOAD_KB, f"a result of {largest:,} KB; one has at most {MOST_PAYLOAD_KB}"),
        (work.retention_days > MOST_RETENTION_DAYS, f"kept {work.retention_days} days; at most {MOST_RETENTION_DAYS}"),
    )
    return tuple(told for broken, told in limits if broken)
