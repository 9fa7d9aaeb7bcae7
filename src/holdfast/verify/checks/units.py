"""Units: what DynamoDB says that writes cost, against the rules by which costs are estimated and metered."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random
from typing import Final

from msgspec import Struct

from holdfast.backends.aws import DynamoStore, Transport
from holdfast.backends.aws.units import index_units, item_units
from holdfast.coordination.inbox import INBOX_PREFIX
from holdfast.items import ABSENT, EXISTS, Item, Put, Update, Write
from holdfast.verify.bench import Bench
from holdfast.verify.finding import Finding, differences

SINGLE: Final = "units of single writes"
TRANSACTIONS: Final = "units of transactions"

PARTITION: Final = "verify#units"
LATER_MS: Final = 4_102_444_800_000
"""The year 2100: no sweep finds these heads."""


class Sample(Struct, frozen=True):
    """Writes of one request, and what they should cost. Each name gets a partition of its own."""

    name: str
    writes: Callable[[str], Sequence[Write]]
    units: Callable[[str], int]


def _head(partition: str, *, due: bool, size: int = 0) -> Item:
    return Item(partition, due_at=LATER_MS if due else None, body=Random(1).randbytes(size))


def _cost(item: Item, before: Item | None = None, *, times: int = 1) -> int:
    return times * (item_units(before, item) + index_units(before, item))


SINGLES: Final = (
    Sample("an item", lambda p: [Put(_head(p, due=False), ABSENT)], lambda p: _cost(_head(p, due=False))),
    Sample(
        "an item of 3 KB",
        lambda p: [Put(_head(p, due=False, size=2_900), ABSENT)],
        lambda p: _cost(_head(p, due=False, size=2_900)),
    ),
    Sample("a head in the index", lambda p: [Put(_head(p, due=True), ABSENT)], lambda p: _cost(_head(p, due=True))),
    Sample(
        "a new head with its first message",
        lambda p: [Put(_head(p, due=False), ABSENT), Put(Item(p, f"{INBOX_PREFIX}1"), ABSENT)],
        lambda p: _cost(_head(p, due=False)),
    ),
)
"""The last one is a head that encloses the message, so it is one write of one item."""

TOGETHER: Final = (
    Sample(
        "two items",
        lambda p: [Put(_head(p, due=False), ABSENT), Put(Item(p, "j#1"), ABSENT)],
        lambda p: _cost(_head(p, due=False), times=2) + _cost(Item(p, "j#1"), times=2),
    ),
    Sample(
        "an item and a head in the index",
        lambda p: [Put(_head(p, due=True), ABSENT), Put(Item(p, "j#1"), ABSENT)],
        lambda p: _cost(_head(p, due=True), times=2) + _cost(Item(p, "j#1"), times=2),
    ),
)


async def single(bench: Bench) -> Finding:
    """Single writes, of sizes, with an index entry, and the move and the end of one."""
    wrong, figures = await _measured(bench, SINGLES)
    moved = await _units(bench, [Update(partition=f"{PARTITION}-2", when=EXISTS, due_at=LATER_MS + 1)])
    left = await _units(bench, [Update(partition=f"{PARTITION}-2", when=EXISTS, due_at=None)])
    for name, units, expected in (("a move in the index", moved, 3), ("an end in the index", left, 2)):
        figures[f"{name}, units"] = units
        if units != expected:
            wrong.append(f"{name} costs {units:g} units, not {expected}")
    return differences(SINGLE, wrong, told=_told(figures), **figures)


async def transactions(bench: Bench) -> Finding:
    """Transactions of two items, without and with an index entry."""
    wrong, figures = await _measured(bench, TOGETHER, first=len(SINGLES))
    return differences(TRANSACTIONS, wrong, told=_told(figures), **figures)


async def _measured(bench: Bench, samples: Sequence[Sample], first: int = 0) -> tuple[list[str], dict[str, float]]:
    wrong: list[str] = []
    figures: dict[str, float] = {}
    for number, sample in enumerate(samples, start=first):
        partition = f"{PARTITION}-{number}"
        units = await _units(bench, sample.writes(partition))
        figures[f"{sample.name}, units"] = units
        if units != (expected := sample.units(partition)):
            wrong.append(f"{sample.name}: {units:g} units, not {expected}")
    return wrong, figures


async def _units(bench: Bench, writes: Sequence[Write]) -> float:
    """What DynamoDB says that one request cost."""
    transport = Transport(bench.connect(), bench.table, random=Random(1), meter=bench.spent)
    store = DynamoStore(transport, bench.table)
    try:
        before = bench.spent.total.write_units
        await store.write(*writes)
        return bench.spent.total.write_units - before
    finally:
        await store.close()


def _told(figures: dict[str, float]) -> str:
    return "; ".join(f"{name.removesuffix(', units')} {units:g}" for name, units in figures.items())
