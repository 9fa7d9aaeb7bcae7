"""The one way for every request: sent until it is answered, within a time limit, each attempt counted."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from random import Random
from typing import Any, Final

from holdfast.backends.aws.connection import Connection
from holdfast.backends.aws.meter import Meter
from holdfast.backoff import Pauses
from holdfast.errors import StoreUnavailable

PATIENCE_SECONDS: Final = 8.0
"""How long a request is tried before its caller gets ``StoreUnavailable``."""

FIRST_PAUSE_SECONDS: Final = 0.05
LONGEST_PAUSE_SECONDS: Final = 1.0


class Sending:
    """Sends requests through a connection, ``at_once`` at the most.

    What may be answered later is sent again after a pause drawn at random from a range that doubles ("Error retries and
    exponential backoff", developer guide). ``meter`` counts the attempts, which are billed.
    """

    def __init__(
        self, connection: Connection, *, at_once: int, random: Random, meter: Meter | None, patience_seconds: float
    ) -> None:
        self.meter = meter or Meter()
        self._connection = connection
        self._random = random
        self._patience_seconds = patience_seconds
        self._slots = asyncio.Semaphore(at_once)

    async def send(
        self, operation: str, parameters: dict[str, Any], failed: Callable[[Exception], StoreUnavailable]
    ) -> dict[str, Any]:
        """The answer to a request. ``failed`` takes the error of an attempt: it raises the error of a request that is
        not worth another, else answers the error for when the time is up.
        """
        async with self._slots:  # a request that waits here was not sent yet, so its time has not begun
            return await self._until_answered(operation, parameters, failed)

    async def _until_answered(
        self, operation: str, parameters: dict[str, Any], failed: Callable[[Exception], StoreUnavailable]
    ) -> dict[str, Any]:
        deadline = asyncio.get_running_loop().time() + self._patience_seconds
        pauses = Pauses(FIRST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS)
        while True:
            self.meter.sent(operation)
            try:
                async with asyncio.timeout_at(deadline):
                    # A copy: botocore leaves a consumed body in it, which would be empty if sent again.
                    return await self._connection.send(operation, dict(parameters))
            except Exception as error:
                gave_up = failed(error)
                wait = self._random.uniform(0, pauses.take())
                if asyncio.get_running_loop().time() + wait >= deadline:
                    raise gave_up from error
            await asyncio.sleep(wait)

    def close(self) -> None:
        """Send nothing more."""
        self._connection.close()
