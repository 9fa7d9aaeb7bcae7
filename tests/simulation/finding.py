"""Seeds of the swarm until one finds a planted bug."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager

import pytest

from holdfast.testing.swarm import Expectation, run_seed

MOST_SEEDS = 240
"""A bug that is not found by then is not found."""

Bug = Callable[[], AbstractContextManager[object]]


def find(bug: Bug, told: str, pool: Sequence[Expectation], *, billed: bool = False) -> None:
    """Fail unless an oracle says what was expected. ``pool`` was recorded without the bug."""
    found: list[str] = []
    with bug():
        for seed in range(MOST_SEEDS):
            found = run_seed(pool, seed, billed=billed).violations
            if any(told in each for each in found):
                print(f"{bug.__name__} is found by seed {seed}, after {seed + 1} seeds")
                return
    pytest.fail(f"no oracle said {told!r}, but at last: {found}")
