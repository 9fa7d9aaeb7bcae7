"""A circuit breaker: stops calls to what fails, and probes until it works again."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from random import Random
from typing import Final, TypeVar

from holdfast.backoff import Pauses
from holdfast.errors import StoreUnavailable

T = TypeVar("T")

FAILURES_TO_OPEN: Final = 3
FIRST_REST_SECONDS: Final = 1.0
LONGEST_REST_SECONDS: Final = 30.0
"""After this many failures in a row the shared tier is not called for a second, then twice as long, up to half a
minute.
"""


class Breaker:
    """After some failures in a row it lets no call through for a while, then one."""

    def __init__(self, random: Random) -> None:
        self._random = random
        self._failures = 0
        self._rests = Pauses(FIRST_REST_SECONDS, LONGEST_REST_SECONDS)
        self._closed_until = 0.0

    async def ask(self, work: Callable[[], Awaitable[T]]) -> T | None:
        """The result of ``work``, or ``None`` if it is not called, or fails with ``StoreUnavailable``."""
        now = asyncio.get_running_loop().time()
        if now < self._closed_until:
            return None
        if self._failures >= FAILURES_TO_OPEN:
            self._closed_until = now + self._rests.seconds  # one call tries; until it has ended, the others do without
        try:
            answer = await work()
        except StoreUnavailable:
            self._note_failure()
            return None
        self._failures, self._closed_until = 0, 0.0
        self._rests.begin_again()
        return answer

    def _note_failure(self) -> None:
        self._failures += 1
        if self._failures >= FAILURES_TO_OPEN:
            rest = self._rests.take() * self._random.uniform(0.5, 1.0)
            self._closed_until = asyncio.get_running_loop().time() + rest
