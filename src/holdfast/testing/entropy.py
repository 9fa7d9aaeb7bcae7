"""Randomness with a seed, where the library asks the operating system for it: ids and secrets repeat themselves."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from random import Random
from typing import Any, cast
from unittest import mock

from holdfast import ids


class _SeededSystem:
    """Stands in for the module ``os`` inside ``holdfast.ids``."""

    def __init__(self, random: Random) -> None:
        self._random = random

    def urandom(self, count: int) -> bytes:
        return self._random.randbytes(count)


@contextmanager
def seeded_entropy(seed: int) -> Generator[None]:
    """Let ``holdfast.ids`` draw from a generator inside the block. Never for anything that must stay secret.

    >>> with seeded_entropy(7):
    ...     first = ids.new_id()
    >>> with seeded_entropy(7):
    ...     first == ids.new_id()
    True
    """
    with mock.patch.object(ids, "os", cast("Any", _SeededSystem(Random(seed)))):
        yield
