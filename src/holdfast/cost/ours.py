"""Holdfast on AWS: the metered requests, and the assumptions, as lines of a bill."""

from __future__ import annotations

from typing import Final

from msgspec import Struct

from holdfast.backends.aws.meter import Usage
from holdfast.cost.bill import NO_COMPUTE, Bill, Compute, line
from holdfast.cost.compute import compute_lines
from holdfast.cost.prices import US_EAST_1, PriceList

REQUESTS_PER_WAKE: Final = 3
"""A message that wakes an entity is sent, received and deleted, alone in its batch."""


SWEPT_TOGETHER: Final = 10
"""A sweep sends this many wake-ups in one request, and they are received and deleted together."""


class Used(Struct, frozen=True, kw_only=True):
    """The total usage of ``runs`` repetitions of one piece of work. ``wakes``: how often an entity was woken, ``swept``
    of them by a sweep, at the end of a long wait.
    """

    runs: int
    usage: Usage
    wakes: int = 0
    swept: int = 0
    blob_writes: int = 0
    blob_reads: int = 0


def bill_of(what: str, used: Used, compute: Compute = NO_COMPUTE, prices: PriceList = US_EAST_1) -> Bill:
    """One of the repetitions. The queue and the functions are assumed: a trial has neither."""
    runs = used.runs
    alone = REQUESTS_PER_WAKE * max(0, used.wakes - used.swept)
    together = REQUESTS_PER_WAKE * used.swept / SWEPT_TOGETHER
    return Bill(
        what,
        (
            line("DynamoDB: written", used.usage.write_units / runs, prices.write_unit),
            line("DynamoDB: read", used.usage.read_units / runs, prices.read_unit),
            line("S3: bodies written", used.blob_writes / runs, prices.object_write),
            line("S3: bodies read", used.blob_reads / runs, prices.object_read),
            line("SQS: wakes", alone / runs, prices.queue_request, assumed=True),
            line("SQS: ends of long waits", together / runs, prices.queue_request, assumed=True),
            *compute_lines(compute, prices),
        ),
    )
