"""What many writers at once do to each other: transactions that overlap, and a part of the index that is hot."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from random import Random
from typing import Any, Final

from holdfast.backends.aws import DynamoStore, Transport
from holdfast.backends.aws.connection import Connection
from holdfast.backends.aws.layout import DEFAULT_PARTS, part_of
from holdfast.clock import elapsed_seconds
from holdfast.errors import StoreUnavailable
from holdfast.items import ABSENT, Item, Put, Update
from holdfast.verify.bench import Bench
from holdfast.verify.checks.units import LATER_MS
from holdfast.verify.cloud import code_of
from holdfast.verify.finding import Finding, differences
from holdfast.verify.spread import at

STORM: Final = "conflict storm"
HOT_INDEX: Final = "hot index"

STORM_WRITES: Final = 200
STORM_AT_ONCE: Final = 16
STORM_PARTITION: Final = "verify#storm"

INDEX_WRITES: Final = 2_000
INDEX_AT_ONCE: Final = 64
INDEX_PART: Final = "0"

TURNED_AWAY: Final = frozenset(
    {
        "TransactionCanceledException",
        "TransactionConflictException",
        "ProvisionedThroughputExceededException",
        "ThrottlingException",
        "RequestLimitExceeded",
    }
)


class Counted:
    """A connection that counts requests, and those that were turned away for others, or for their rate."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self.requests = self.turned_away = 0

    async def send(self, operation: str, parameters: dict[str, Any]) -> dict[str, Any]:
        """One attempt."""
        self.requests += 1
        try:
            return await self._connection.send(operation, parameters)
        except Exception as error:
            self.turned_away += code_of(error) in TURNED_AWAY
            raise

    def close(self) -> None:
        """Close it."""
        self._connection.close()


async def storm(bench: Bench) -> Finding:
    """Transactions that add an item each, and count them in one head. Every one that was answered is there."""
    connection = Counted(bench.connect())
    transport = Transport(connection, bench.table, random=Random(2), meter=bench.spent)
    # A store sends its writes of one partition one after another: so each is another one, as of another process.
    stores = [DynamoStore(transport, bench.table) for _ in range(STORM_AT_ONCE)]
    try:
        await stores[0].write(Put(Item(STORM_PARTITION), ABSENT))

        async def one(number: int) -> None:
            put = Put(Item(STORM_PARTITION, f"j#{number:05}"), ABSENT)
            counted = Update(partition=STORM_PARTITION, add_revision=1)
            await stores[number % len(stores)].write(put, counted)

        times, failed = await _timed(one, STORM_WRITES, STORM_AT_ONCE)
    finally:
        transport.close()
    async with bench.home("verify-storm") as home:
        head = await home.store.get(STORM_PARTITION)
        items = (await home.store.query(STORM_PARTITION, prefix="j#", limit=STORM_WRITES)).items
    counted = 0 if head is None else head.revision
    wrong: list[str] = []
    if counted != len(items):
        wrong.append(f"the head counts {counted}, and there are {len(items)} items: a transaction was torn")
    if len(items) < len(times):
        wrong.append(f"{len(times)} transactions were answered, and {len(items)} are there")
    share = 100 * connection.turned_away / connection.requests
    told = f"{len(items)} of {STORM_WRITES} transactions on one head, {share:.0f} % of the attempts turned away"
    return differences(
        STORM,
        wrong,
        told=f"{told}; p99 {at(times, 99):,.0f} ms",
        **{"transactions a second": len(times) / (sum(times) / 1000 / STORM_AT_ONCE) if times else 0.0},
        **{"p50, ms": at(times, 50), "p99, ms": at(times, 99), "turned away, %": share, "given up": failed},
    )


async def hot_index(bench: Bench) -> Finding:
    """Heads that all enter one part of the index."""
    partitions = [f"verify#hot-{number}" for number in range(INDEX_WRITES * DEFAULT_PARTS * 2)]
    chosen = [each for each in partitions if part_of(each, DEFAULT_PARTS) == INDEX_PART][:INDEX_WRITES]
    connection = Counted(bench.connect())
    transport = Transport(connection, bench.table, random=Random(3), meter=bench.spent)
    store = DynamoStore(transport, bench.table)

    async def one(number: int) -> None:
        await store.write(Put(Item(chosen[number], due_at=LATER_MS), ABSENT))

    began = elapsed_seconds()
    try:
        times, failed = await _timed(one, len(chosen), INDEX_AT_ONCE)
    finally:
        transport.close()
    seconds = elapsed_seconds() - began
    share = 100 * connection.turned_away / connection.requests
    wrong = [f"{failed} of {len(chosen)} writes were given up"] if failed else []
    return differences(
        HOT_INDEX,
        wrong,
        told=f"{len(times) / seconds:,.0f} writes a second into one part, {share:.0f} % of the attempts throttled",
        **{"writes a second": len(times) / seconds, "p99, ms": at(times, 99), "throttled, %": share},
    )


async def _timed(one: Callable[[int], Awaitable[None]], count: int, at_once: int) -> tuple[list[float], int]:
    """The milliseconds of each that was answered, and how many were given up."""
    gate = asyncio.Semaphore(at_once)
    times: list[float] = []

    async def timed(number: int) -> int:
        async with gate:
            began = elapsed_seconds()
            try:
                await one(number)
            except StoreUnavailable:
                return 1
            times.append((elapsed_seconds() - began) * 1000)
            return 0

    return times, sum(await asyncio.gather(*map(timed, range(count))))
