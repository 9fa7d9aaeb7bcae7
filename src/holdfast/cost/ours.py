"""Holdfast on AWS: the metered requests, and the assumptions, as lines of a bill."""

from __future__ import annotations

from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from holdfast.backends.aws.meter import Usage
from holdfast.cost.bill import NO_COMPUTE, Bill, Compute, line
from holdfast.cost.compute import compute_lines
from holdfast.cost.prices import US_EAST_1, PriceList
from holdfast.cost.queue import BATCH, Requests

NO_REQUESTS: Final = Requests()


class Used(Struct, frozen=True, kw_only=True):
    """The total usage of ``runs`` repetitions of one piece of work. ``queue`` are the requests of the queue, without
    those for the wake-ups that a sweep has sent, which are ``swept``. ``flow_units`` are the write units, of those in
    ``usage``, of the items of queues and limits.
    """

    runs: int
    usage: Usage
    queue: Requests = NO_REQUESTS
    swept: Requests = NO_REQUESTS
    invocations: int = 0
    flow_units: float = 0.0
    blob_writes: int = 0
    blob_reads: int = 0

    def in_batches(self) -> Used:
        """The same with ten messages in each batch that a function receives: so it is where much happens."""
        return replace(self, queue=Requests(self.queue.sends, self.queue.receives / BATCH))


def bill_of(what: str, used: Used, compute: Compute = NO_COMPUTE, prices: PriceList = US_EAST_1) -> Bill:
    """One of the repetitions. The time in functions is assumed, and that a sweep has ten wake-ups to send at once."""
    runs = used.runs
    return Bill(
        what,
        (
            line("DynamoDB: written", (used.usage.write_units - used.flow_units) / runs, prices.write_unit),
            line("DynamoDB: written by queues, limits", used.flow_units / runs, prices.write_unit),
            line("DynamoDB: read", used.usage.read_units / runs, prices.read_unit),
            line("S3: bodies written", used.blob_writes / runs, prices.object_write),
            line("S3: bodies read", used.blob_reads / runs, prices.object_read),
            line("SQS: sent", used.queue.sends / runs, prices.queue_request),
            line("SQS: received, deleted", 2 * used.queue.receives / runs, prices.queue_request),
            line("SQS: ends of long waits", used.swept.total / BATCH / runs, prices.queue_request, assumed=True),
            *compute_lines(compute, prices),
        ),
    )
