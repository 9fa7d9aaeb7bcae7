"""Seeds of the swarm until one finds a planted bug."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from unittest import mock

import pytest

from holdfast.testing import swarm
from holdfast.testing.swarm import Expectation, run_seed

MOST_SEEDS = 240
"""A bug that is not found by then is not found."""

ENOUGH_SECONDS = 600.0
"""So long after the faults all has ended where there is no bug. What never ends costs as much as the whole hour."""

Bug = Callable[[], AbstractContextManager[object]]


def seeds(first: int, most: int = MOST_SEEDS) -> Iterator[int]:
    """All seeds, and first the one that is known to find the bug: to look for it from the beginning takes longer."""
    yield first
    yield from (seed for seed in range(most) if seed != first)


def find(bug: Bug, told: str, pool: Sequence[Expectation], *, first: int = 0, billed: bool = False) -> None:
    """Fail unless an oracle says what was expected, and nothing without the bug. ``pool`` was recorded without it."""
    found: list[str] = []
    with mock.patch.object(swarm, "HEALING_SECONDS", ENOUGH_SECONDS):
        for tried, seed in enumerate(seeds(first), start=1):
            with bug():
                found = run_seed(pool, seed, billed=billed).violations
            if any(told in each for each in found):
                print(f"{bug.__name__} is found by seed {seed}, after {tried} seeds")
                assert run_seed(pool, seed, billed=billed).violations == [], "it is not the bug that was found"
                return
    pytest.fail(f"no oracle said {told!r}, but at last: {found}")
