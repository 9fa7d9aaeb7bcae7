"""Chance, as expressions draw it: from the execution, where a replay draws the same again, or from a seed in tests."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from uuid import UUID

from msgspec import Struct


class Randomness(Struct, frozen=True):
    """``generator`` answers the random numbers of now; it is asked only if an expression needs one."""

    generator: Callable[[], Random]

    def uuid(self) -> str:
        """A random UUID, version 4."""
        return str(UUID(int=self.generator().getrandbits(128), version=4))


def seeded(seed: str) -> Randomness:
    """Chance that repeats itself."""
    generator = Random(seed)
    return Randomness(lambda: generator)
