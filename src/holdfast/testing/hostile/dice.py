"""Decisions drawn from a seed: the same for the same seed, number of the request, and question."""

from __future__ import annotations

from hashlib import blake2b
from typing import Final

RANGE: Final = float(2**64)


class Dice:
    """One request's draws."""

    __slots__ = ("_key",)

    def __init__(self, seed: int, number: int) -> None:
        self._key = f"{seed}/{number}/"

    def draw(self, question: str) -> float:
        """A number from 0 up to, and without, 1."""
        digest = blake2b((self._key + question).encode(), digest_size=8).digest()
        return int.from_bytes(digest, "big") / RANGE

    def happens(self, question: str, share: float) -> bool:
        """Whether it does, in this share of the requests."""
        return share > 0 and self.draw(question) < share

    def below(self, question: str, count: int) -> int:
        """A whole number from 0 up to, and without, ``count``."""
        return int(self.draw(question) * count)
