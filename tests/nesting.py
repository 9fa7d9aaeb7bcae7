"""Values that nest as deep as a test wants."""

from __future__ import annotations

from typing import Any


def nested(levels: int) -> Any:
    """A value in so many lists, each in the next."""
    value: Any = 1
    for _ in range(levels):
        value = [value]
    return value
