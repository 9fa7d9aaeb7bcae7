"""Percentiles."""

from __future__ import annotations

import math
from collections.abc import Sequence


def at(values: Sequence[float], percent: float) -> float:
    """The value that this percentage of them does not exceed; 0 if there are none.

    >>> at([3.0, 1.0, 2.0, 4.0], 50), at([3.0, 1.0, 2.0, 4.0], 99)
    (2.0, 4.0)
    """
    ordered = sorted(values)
    return ordered[max(0, math.ceil(len(ordered) * percent / 100) - 1)] if ordered else 0.0
