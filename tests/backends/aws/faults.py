"""A connection on which things go wrong: what botocore would raise, before or after the request was performed."""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Awaitable, Callable
from random import Random
from typing import Any

from botocore.exceptions import ClientError, ConnectionClosedError, EndpointConnectionError, ReadTimeoutError

from holdfast.backends.aws.connection import Connection
from holdfast.backends.aws.direct.messages import Refused

ENDPOINT = "http://127.0.0.1"


def refused(code: str, status: int = 400, **more: Any) -> Callable[[str], Exception]:
    def make(operation: str) -> Exception:
        response = {"Error": {"Code": code, "Message": "injected"}, "ResponseMetadata": {"HTTPStatusCode": status}}
        return ClientError(response | more, operation)

    return make


def conflict(operation: str) -> Exception:
    if operation == "TransactWriteItems":
        reasons = [{"Code": "None"}, {"Code": "TransactionConflict", "Message": "injected"}]
        return refused("TransactionCanceledException", CancellationReasons=reasons)(operation)
    return refused("TransactionConflictException")(operation)


NOT_APPLIED: dict[str, Callable[[str], Exception]] = {
    "throttled": refused("ProvisionedThroughputExceededException"),
    "throttled by the account": refused("RequestLimitExceeded"),
    "rate exceeded": refused("ThrottlingException"),
    "conflict": conflict,
    "not connected": lambda _operation: EndpointConnectionError(endpoint_url=ENDPOINT),
    "failed before": refused("InternalServerError", 500),
}
S3_NOT_APPLIED: dict[str, Callable[[str], Exception]] = {
    "too fast": refused("SlowDown", 503),
    "another write under way": refused("ConditionalRequestConflict", 409),
    "not connected": NOT_APPLIED["not connected"],
}
APPLIED: dict[str, Callable[[str], Exception]] = {
    "failed after": refused("InternalServerError", 500),
    "unavailable after": refused("ServiceUnavailable", 503),
    "connection reset": lambda _operation: ConnectionClosedError(endpoint_url=ENDPOINT),
    "no answer in time": lambda _operation: ReadTimeoutError(endpoint_url=ENDPOINT),
}
FAULTS = (*NOT_APPLIED, *APPLIED)
S3_FAULTS = (*S3_NOT_APPLIED, *APPLIED)


class FaultyConnection:
    """Does what ``next_fault`` says with each attempt: its name, or ``None`` for nothing."""

    def __init__(self, connection: Connection, next_fault: Callable[[str], str | None]) -> None:
        self.connection = connection
        self.meanwhile: Callable[[], Awaitable[Any]] = _nothing
        """What happens between a request that was performed and its answer that was lost."""
        self._next_fault = next_fault
        self.suffered: Counter[str] = Counter()
        self.attempts: list[tuple[str, dict[str, Any]]] = []

    async def send(self, operation: str, parameters: dict[str, Any]) -> dict[str, Any]:
        self.attempts.append((operation, parameters))
        fault = self._next_fault(operation)
        if fault is None:
            return await self.connection.send(operation, parameters)
        self.suffered[fault] += 1
        if (before := NOT_APPLIED.get(fault) or S3_NOT_APPLIED.get(fault)) is not None:
            raise before(operation)
        with contextlib.suppress(ClientError, Refused):  # a refusal is an answer too, and gets lost like any other
            await self.connection.send(operation, parameters)
        await self.meanwhile()
        raise APPLIED[fault](operation)

    def close(self) -> None:
        self.connection.close()


def sometimes(seed: int, share: float, faults: tuple[str, ...] = FAULTS) -> Callable[[str], str | None]:
    """Any fault, in this share of the attempts."""
    random = Random(seed)
    return lambda _operation: random.choice(faults) if random.random() < share else None


def then_none(*faults: str | None) -> Callable[[str], str | None]:
    """These, one after another, and none from then on."""
    rest = iter(faults)
    return lambda _operation: next(rest, None)


async def _nothing() -> None:
    pass
