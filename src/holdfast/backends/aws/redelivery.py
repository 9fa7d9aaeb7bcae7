"""When a message that is not done comes again: its visibility is changed, so it need not wait for the queue's time-out.

The new time-out counts from the call, and ends twelve hours after the message was received at the latest
(https://docs.aws.amazon.com/AWSSimpleQueueService/latest/APIReference/API_ChangeMessageVisibility.html).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Final

from holdfast.backends.aws.bellringer import BATCH
from holdfast.backends.aws.connection import Connection
from holdfast.backends.aws.tries import TRIES, is_hopeless, pause_before, refused_for
from holdfast.ports import Postponed

LONGEST_SECONDS: Final = 11 * 3600
"""Twelve hours count from the receipt, and an invocation may have taken a part of them."""


class QueueUrls:
    """The URLs of queues by their ARNs, each looked up once."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._urls: dict[str, str] = {}

    async def of(self, arn: str) -> str:
        """The URL of the queue. Raises what botocore raises."""
        if arn not in self._urls:
            account, _, name = arn.rpartition(":")
            asked = {"QueueName": name, "QueueOwnerAWSAccountId": account.rpartition(":")[2]}
            self._urls[arn] = str((await self._connection.send("GetQueueUrl", asked))["QueueUrl"])
        return self._urls[arn]


class SqsRedelivery:
    """See ``Redelivery``. The receipts are those with which Lambda has handed the messages to the function."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._urls = QueueUrls(connection)

    async def postpone(self, messages: Sequence[Postponed], /) -> str:
        """See ``Redelivery.postpone``."""
        lost: list[str] = []
        for queue in dict.fromkeys(each.queue for each in messages):
            of_queue = [each for each in messages if each.queue == queue]
            for first in range(0, len(of_queue), BATCH):
                reason = await self._change(queue, of_queue[first : first + BATCH])
                lost += [reason] if reason else []
        return ", ".join(dict.fromkeys(lost))

    async def _change(self, queue: str, messages: Sequence[Postponed]) -> str:
        entries: list[dict[str, Any]] = [
            {"Id": str(n), "ReceiptHandle": each.receipt, "VisibilityTimeout": _whole(each.seconds)}
            for n, each in enumerate(messages)
        ]
        reason = ""
        for attempt in range(TRIES):
            await pause_before(attempt)
            try:
                asked = {"QueueUrl": await self._urls.of(queue), "Entries": entries}
                answer = await self._connection.send("ChangeMessageVisibilityBatch", asked)
            except Exception as error:  # noqa: BLE001 - a hint: the queue's own time-out remains
                reason = refused_for(error)
                if is_hopeless(error):
                    return reason
                continue
            failed = {each["Id"]: each for each in answer.get("Failed", ())}
            if not failed:
                return ""
            reason = ", ".join(sorted({str(each.get("Code")) for each in failed.values()}))
            if all(each.get("SenderFault") for each in failed.values()):
                return reason  # it is not hidden any more, or was deleted
            entries = [each for each in entries if each["Id"] in failed]
        return reason


def _whole(seconds: float) -> int:
    """Whole seconds, never too early."""
    return min(LONGEST_SECONDS, math.ceil(seconds))
