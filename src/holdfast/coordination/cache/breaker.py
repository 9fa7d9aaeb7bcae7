"""A circuit breaker: keeps away from what fails, and finds out by itself when it is back."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from random import Random
from typing import Final, TypeVar

from holdfast.errors import StoreUnavailable

T = TypeVar("T")

FAILURES_TO_OPEN: Final = 3
FIRST_REST_SECONDS: Final = 1.0
LONGEST_REST_SECONDS: Final = 30.0
"""After so many failures in a row the shared tier is left alone: a second, then twice as long, up to half a minute."""


class Breaker:
    """Keeps away from what fails: after some failures in a row nobody asks for a while, then one does."""

    def __init__(self, random: Random) -> None:
        self._random = random
        self._failures = 0
        self._rest_seconds = FIRST_REST_SECONDS
        self._closed_until = 0.0

    async def ask(self, work: Callable[[], Awaitable[T]]) -> T | None:
        """What ``work`` answers, or ``None`` if it is not asked, or fails with ``StoreUnavailable``."""
        now = asyncio.get_running_loop().time()
        if now < self._closed_until:
            return None
        if self._failures >= FAILURES_TO_OPEN:
            self._closed_until = now + self._rest_seconds  # one tries; the others go on without, until it has
        try:
            answer = await work()
        except StoreUnavailable:
            self._note_failure()
            return None
        self._failures, self._rest_seconds, self._closed_until = 0, FIRST_REST_SECONDS, 0.0
        return answer

    def _note_failure(self) -> None:
        self._failures += 1
        if self._failures >= FAILURES_TO_OPEN:
            rest = self._rest_seconds * self._random.uniform(0.5, 1.0)
            self._closed_until = asyncio.get_running_loop().time() + rest
            self._rest_seconds = min(self._rest_seconds * 2, LONGEST_REST_SECONDS)
