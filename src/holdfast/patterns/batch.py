"""Batches of SQS messages on AWS Lambda, answered message by message.

Lambda redelivers only the messages that a response lists as ``batchItemFailures`` ("Reporting batch item
failures for Lambda functions with an Amazon SQS trigger"; the event source mapping needs ``ReportBatchItemFailures``).
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, TypedDict, cast

from holdfast.errors import InvalidInput, InvalidState


class ItemFailure(TypedDict):
    """One message to redeliver."""

    itemIdentifier: str


class BatchResponse(TypedDict):
    """The response of a function to Lambda."""

    batchItemFailures: list[ItemFailure]


class SqsBatch:
    """The messages of one event, to be handled one by one by async or sync code.

    After the first failure in a group of a FIFO queue the rest of that group is not handled: it is redelivered, in
    order.

        batch = hf.SqsBatch(event)
        for record in batch:
            with batch.attempt(record):
                charge(json.loads(record["body"]))
        return batch.response()
    """

    def __init__(self, event: Mapping[str, Any]) -> None:
        records = event.get("Records")
        if not isinstance(records, list):
            raise InvalidInput("this is not an event of an SQS trigger: it has no list of Records")
        self._records = [_checked(record) for record in cast("list[Any]", records)]
        self._pending = {record["messageId"] for record in self._records}
        self._failed: dict[str, Exception | None] = {}
        self._failed_groups = set[str]()

    def __iter__(self) -> Iterator[dict[str, Any]]:
        for record in self._records:
            if _group_of(record) in self._failed_groups:
                self._end(record, None, failed=True)
            else:
                yield record

    @contextmanager
    def attempt(self, record: dict[str, Any]) -> Generator[None]:
        """Handle one message in this block. An ``Exception`` is kept in ``errors``, and the message is redelivered.

        Other errors, such as a cancellation, pass through: then there is no response, and all messages are redelivered.
        """
        if record["messageId"] not in self._pending:
            raise InvalidState(f"message {record['messageId']} is not in this batch, or was handled before")
        try:
            yield
        except Exception as error:  # noqa: BLE001 - whatever it is, it is this message's alone
            if (group := _group_of(record)) is not None:
                self._failed_groups.add(group)
            self._end(record, error, failed=True)
        else:
            self._end(record, None, failed=False)

    @property
    def errors(self) -> dict[str, Exception | None]:
        """The messages to redeliver, by their ids; ``None`` for one that was not handled because of its group."""
        return dict(self._failed)

    def response(self) -> BatchResponse:
        """The response. Messages that were never handled are among the failures."""
        again = [record["messageId"] for record in self._records]
        wanted = self._pending | self._failed.keys()
        return {"batchItemFailures": [{"itemIdentifier": each} for each in again if each in wanted]}

    def _end(self, record: dict[str, Any], error: Exception | None, *, failed: bool) -> None:
        self._pending.discard(record["messageId"])
        if failed:
            self._failed[record["messageId"]] = error


def _checked(record: Any) -> dict[str, Any]:
    if not isinstance(record, dict) or not isinstance(cast("dict[str, Any]", record).get("messageId"), str):
        raise InvalidInput("a record of this event is not an SQS message: it has no messageId")
    return cast("dict[str, Any]", record)


def _group_of(record: dict[str, Any]) -> str | None:
    """The group of a message whose queue keeps the order. Messages of standard queues may name one too, for fairness
    alone ("Amazon SQS fair queues").
    """
    if not str(record.get("eventSourceARN", "")).endswith(".fifo"):
        return None
    group = record.get("attributes", {}).get("MessageGroupId")
    if not group:
        raise InvalidInput(f"message {record['messageId']} comes from a FIFO queue and names no MessageGroupId")
    return str(group)
