"""Two published tables of the cost of one's own checkpoints, computed again from their formulas."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from typing import Final

from msgspec import Struct

from holdfast.cost import durable_functions, roll_your_own

COUNTS: Final = (1, 2, 3, 4, 8, 16)

PRINTED_OTHERWISE: Final = {("16 KB+", "8"): Decimal("3.735")}
"""Cells whose printed figure does not follow from the formulas: 0.40 + 0.125 + 8 × 0.40 is 3.725."""


class Table(Struct, frozen=True):
    """Dollars per million. A row is its heading and its figures."""

    title: str
    headings: tuple[str, ...]
    rows: tuple[tuple[str, tuple[Decimal, ...]], ...]


def by_size() -> Table:
    """A checkpoint and a replay of it, by size."""
    sizes = (("1 KB", 1), ("8 KB", 8), ("20 KB", 20), ("over 20 KB", 21))
    return Table(
        "Checkpoint and replay, by size",
        ("size", "Durable checkpoint", "own checkpoint", "Durable replay", "own replay"),
        tuple(
            (
                name,
                (
                    durable_functions.checkpoint(size).usd_per_million,
                    roll_your_own.checkpoint(size).usd_per_million,
                    durable_functions.replay().usd_per_million,
                    roll_your_own.replay([size]).usd_per_million,
                ),
            )
            for name, size in sizes
        ),
    )


def by_count() -> Table:
    """One's own replay, by size and number of the checkpoints that are read."""
    sizes = (("1 KB", 1), ("4 KB", 4), ("8 KB", 8), ("16 KB+", 16))
    return Table(
        "Own replay, by number of checkpoints",
        ("size", *map(str, COUNTS)),
        tuple(
            (name, tuple(roll_your_own.replay([size] * count).usd_per_million for count in COUNTS))
            for name, size in sizes
        ),
    )


def tables() -> Sequence[Table]:
    """Both."""
    return by_size(), by_count()
