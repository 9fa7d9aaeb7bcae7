"""The one way for every request: sent until it is answered, within a time limit, each attempt counted."""

from __future__ import annotations

import asyncio
from random import Random
from typing import Any, Final

from holdfast.backends.aws.connection import THREADS, Connection
from holdfast.backends.aws.failures import AnswerLost, Cancelled, ConditionFailed, Hopeless, NotApplied, explained
from holdfast.backends.aws.layout import size_bytes
from holdfast.backends.aws.meter import Meter
from holdfast.backends.aws.requests import Request
from holdfast.errors import StoreUnavailable
from holdfast.pauses import Pauses

PATIENCE_SECONDS: Final = 8.0
"""How long a request is tried before its caller gets ``StoreUnavailable``."""

FIRST_PAUSE_SECONDS: Final = 0.05
LONGEST_PAUSE_SECONDS: Final = 1.0


class RequestRefused(Exception):
    """A condition did not hold. ``doubtful``: an earlier attempt, whose answer was lost, may have been applied."""

    def __init__(self, failure: ConditionFailed | Cancelled, *, doubtful: bool) -> None:
        super().__init__(failure)
        self.failure = failure
        self.doubtful = doubtful


class Transport:
    """Sends requests about one table.

    A request that was turned away because of its rate or a concurrent transaction, or whose answer was lost, is sent
    again after a pause drawn at random from a range that doubles ("Error retries and exponential backoff", developer
    guide). A write sent again carries the same nonce, by which it is recognised.
    """

    def __init__(
        self,
        connection: Connection,
        table: str,
        *,
        random: Random,
        meter: Meter | None = None,
        patience_seconds: float = PATIENCE_SECONDS,
    ) -> None:
        self.meter = meter or Meter()
        self._connection = connection
        self._table = table
        self._random = random
        self._patience_seconds = patience_seconds
        self._slots = asyncio.Semaphore(THREADS)

    async def call(self, operation: str, parameters: dict[str, Any]) -> dict[str, Any]:
        """The answer to a request that reads. Raises as ``write`` does."""
        return await self.write(Request(operation, parameters, ()))

    async def write(self, request: Request) -> dict[str, Any]:
        """The answer to a request.

        Raises ``RequestRefused``; ``StoreUnavailable`` if there was no answer in time, which for a write may mean that
        it was applied; ``StoreUnusable`` with the remedy; ``PayloadTooLarge``.
        """
        async with self._slots:  # a request that waits here was not sent yet, so its time has not begun
            return await self._until_answered(request)

    async def _until_answered(self, request: Request) -> dict[str, Any]:
        deadline = asyncio.get_running_loop().time() + self._patience_seconds
        pauses, doubtful = Pauses(FIRST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS), False
        while True:
            self.meter.sent(request.operation)
            try:
                async with asyncio.timeout_at(deadline):
                    answer = await self._connection.send(request.operation, request.parameters)
            except Exception as error:
                reason = self._failed(error, request, doubtful=doubtful)
                doubtful = doubtful or isinstance(reason, AnswerLost)
                wait = self._random.uniform(0, pauses.take())
                if asyncio.get_running_loop().time() + wait >= deadline:
                    raise _gave_up(self._table, request, reason, doubtful=doubtful) from error
            else:
                self.meter.answered(request.operation, answer)
                return answer
            await asyncio.sleep(wait)

    def _failed(self, error: Exception, request: Request, *, doubtful: bool) -> NotApplied | AnswerLost:
        """Why the attempt failed, if it is worth another; else raises the error for the caller."""
        match explained(error, self._table):
            case Hopeless(hopeless):
                raise hopeless from error
            case ConditionFailed(there) as refused:
                self.meter.refused(request.operation, 0 if there is None else size_bytes(there))
                raise RequestRefused(refused, doubtful=doubtful) from None
            case Cancelled(reasons) as cancelled:
                found = [0 if each.there is None else size_bytes(each.there) for each in reasons]
                self.meter.cancelled(request.operation, list(map(max, found, request.sizes)))
                raise RequestRefused(cancelled, doubtful=doubtful) from None
            case reason:
                return reason

    def close(self) -> None:
        """Send nothing more."""
        self._connection.close()


def _gave_up(table: str, request: Request, reason: NotApplied | AnswerLost, *, doubtful: bool) -> StoreUnavailable:
    outcome = "it may or may not have been applied" if doubtful else "nothing of it was applied"
    return StoreUnavailable(
        f"the table {table} did not answer a {request.operation} in time; {outcome} ({reason.reason})"
    )
