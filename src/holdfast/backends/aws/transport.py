"""Requests about one table of DynamoDB, and what a refusal of one means."""

from __future__ import annotations

from random import Random
from typing import Any

from holdfast.backends.aws.connection import THREADS, Connection
from holdfast.backends.aws.failures import AnswerLost, Cancelled, ConditionFailed, Hopeless, NotApplied, explained
from holdfast.backends.aws.layout import Attributes, key, size_bytes
from holdfast.backends.aws.meter import Meter
from holdfast.backends.aws.requests import Request
from holdfast.backends.aws.sending import PATIENCE_SECONDS, Sending
from holdfast.errors import StoreUnavailable
from holdfast.items import HEAD


class RequestRefused(Exception):
    """A condition did not hold. ``doubtful``: an earlier attempt, whose answer was lost, may have been applied."""

    def __init__(self, failure: ConditionFailed | Cancelled, *, doubtful: bool) -> None:
        super().__init__(failure)
        self.failure = failure
        self.doubtful = doubtful


class Transport(Sending):
    """Sends requests about one table.

    A request is sent again if it was turned away because of its rate or a concurrent transaction, or its answer was
    lost. A write sent again carries the same nonce, by which it is recognised.
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
        super().__init__(connection, at_once=THREADS, random=random, meter=meter, patience_seconds=patience_seconds)
        self._table = table

    async def call(self, operation: str, parameters: dict[str, Any]) -> dict[str, Any]:
        """The answer to a request that reads. Raises as ``write`` does."""
        return await self.write(Request(operation, parameters, ()))

    async def amend(self, partition: str, change: str, when: str, names: dict[str, str], values: Attributes) -> bool:
        """Change attributes of a head that only the store itself uses, where ``when`` holds; false where it does not.

        Nothing else of the head changes, so an owner does not notice, and a write that is sent again still recognises
        itself.
        """
        parameters: dict[str, Any] = {
            "TableName": self._table,
            "Key": key(partition, HEAD),
            "UpdateExpression": change,
            "ConditionExpression": when,
            "ExpressionAttributeNames": names,
            "ExpressionAttributeValues": values,
            "ReturnValuesOnConditionCheckFailure": "ALL_OLD",
            "ReturnConsumedCapacity": "TOTAL",
        }
        try:
            await self.write(Request("UpdateItem", parameters, (0,)))
        except RequestRefused:
            return False
        return True

    async def write(self, request: Request) -> dict[str, Any]:
        """The answer to a request.

        Raises ``RequestRefused``; ``StoreUnavailable`` if there was no answer in time, which for a write may mean that
        it was applied; ``StoreUnusable`` with the remedy; ``PayloadTooLarge``.
        """
        doubtful = False

        def failed(error: Exception) -> StoreUnavailable:
            nonlocal doubtful
            reason = self._failed(error, request, doubtful=doubtful)
            doubtful = doubtful or isinstance(reason, AnswerLost)
            return _gave_up(self._table, request, reason, doubtful=doubtful)

        answer = await self.send(request.operation, request.parameters, failed)
        self.meter.answered(request.operation, answer)
        return answer

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


def _gave_up(table: str, request: Request, reason: NotApplied | AnswerLost, *, doubtful: bool) -> StoreUnavailable:
    outcome = "it may or may not have been applied" if doubtful else "nothing of it was applied"
    return StoreUnavailable(
        f"the table {table} did not answer a {request.operation} in time; {outcome} ({reason.reason})"
    )
