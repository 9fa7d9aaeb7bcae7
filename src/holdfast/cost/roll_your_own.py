"""Rolling your own: a queue, a function, checkpoints in a table, large bodies in a bucket.

A checkpoint takes a lease on the step, writes its metadata, and postpones the message's return. A replay receives the
message, reads the metadata of all checkpoints with one query, and then the bodies in the bucket one by one.
"""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from math import ceil
from typing import Final

from holdfast.cost.bill import Bill, line
from holdfast.cost.prices import US_EAST_1, PriceList

OFFLOADS_ABOVE_KB: Final = 8
"""A larger body goes to S3: from 9 KB on that is cheaper than writing it to the table."""

REFERENCE_BYTES: Final = 256
"""The most that is read of a checkpoint whose body is in S3: the published replays of 16 checkpoints need one read unit
of 4 KB for all of them."""

KB: Final = 1024
READ_UNIT_KB: Final = 4


def checkpoint(size_kb: int, prices: PriceList = US_EAST_1) -> Bill:
    """One step's checkpoint."""
    offloaded = size_kb > OFFLOADS_ABOVE_KB
    body = (line("S3: body", 1, prices.object_write),) if offloaded else ()
    return Bill(
        f"checkpoint of {size_kb} KB",
        (
            line("DynamoDB: lease", 1, prices.write_unit),
            line("DynamoDB: metadata", 1 if offloaded else max(1, size_kb), prices.write_unit),
            *body,
            line("SQS: change visibility", 1, prices.queue_request),
        ),
    )


def replay(sizes_kb: Sequence[int], prices: PriceList = US_EAST_1) -> Bill:
    """Continuing after a wait, with earlier checkpoints of these sizes."""
    offloaded = sum(size > OFFLOADS_ABOVE_KB for size in sizes_kb)
    metadata_kb = Decimal(offloaded * REFERENCE_BYTES) / KB
    metadata_kb += sum(size for size in sizes_kb if size <= OFFLOADS_ABOVE_KB)
    return Bill(
        f"replay of {len(sizes_kb)} checkpoints",
        (
            line("SQS: receive", 1, prices.queue_request),
            line("DynamoDB: metadata", max(1, ceil(metadata_kb / READ_UNIT_KB)), prices.read_unit),
            line("S3: bodies", offloaded, prices.object_read),
        ),
    )


def execution(checkpoints_kb: Sequence[int], *, waits: int = 0, prices: PriceList = US_EAST_1) -> Bill:
    """One execution: a message that starts it, its checkpoints, and a replay of all of them after each wait.

    A wait is a checkpoint of 1 KB. The message is sent once, received once and deleted once.
    """
    every = (*checkpoints_kb, *(1 for _ in range(waits)))
    parts = [*(checkpoint(size, prices) for size in every), *(replay(every, prices) for _ in range(waits))]
    return Bill(
        "rolling your own",
        (
            line("SQS: send, receive, delete", 3, prices.queue_request),
            *(each for part in parts for each in part.lines),
        ),
    )


def actor_call(size_kb: int = 1, prices: PriceList = US_EAST_1) -> Bill:
    """A call as it is commonly published: put a lock, read the state, write it, delete the lock."""
    return Bill(
        "call under a lock",
        (
            line("DynamoDB: lock, unlock", 2, prices.write_unit),
            line("DynamoDB: state read", Decimal(-(-size_kb // READ_UNIT_KB)) / 2, prices.read_unit),
            line("DynamoDB: state written", size_kb, prices.write_unit),
        ),
    )


OUTBOX_HOP_UNITS: Final = 12
"""Outbox row in a transaction, marked when it is published; inbox row claimed, then marked when it is done."""


def message_hop(prices: PriceList = US_EAST_1) -> Bill:
    """A message as it is commonly published: a table of outgoing ones, a table of incoming ones, and a bus between
    them.
    """
    return Bill(
        "outbox, bus, inbox",
        (
            line("DynamoDB: outbox and inbox", OUTBOX_HOP_UNITS, prices.write_unit),
            line("DynamoDB: look", 1, prices.read_unit),
            line("EventBridge: event", 1, prices.event),
        ),
    )
