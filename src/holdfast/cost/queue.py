"""The queue in front of a function, in a trial: it delivers, and counts the requests that SQS would bill."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final

from msgspec import Struct

BATCH: Final = 10
"""The most messages of one invocation, as the template sets it."""

REDELIVERY_SECONDS: Final = 360.0
"""After so long a failed message comes back: six times the timeout of the function, as the template sets it."""

ARN: Final = "arn:aws:sqs:us-east-1:000000000000:trial-holdfast-doorbell"


class Requests(Struct, frozen=True):
    """The requests of a queue: sends, and receives of a batch, each of which is followed by a delete of the batch.

    >>> Requests(sends=1, receives=1).total
    3
    """

    sends: float = 0
    receives: float = 0

    @property
    def total(self) -> float:
        """All of them."""
        return self.sends + 2 * self.receives

    def plus(self, *, sends: int = 0, receives: int = 0) -> Requests:
        """These and some more."""
        return Requests(self.sends + sends, self.receives + receives)


class Message(Struct, frozen=True):
    """A message, and whether a sweep has sent it."""

    id: str
    body: str
    swept: bool = False


Deliver = Callable[[Sequence[Message]], Awaitable[Sequence[str]]]
"""Hands a batch to the function, and returns the ids of the messages that failed."""


class TrialQueue:
    """A standard queue: a message arrives after its delay, and those that wait are received together.

    ``sweeping`` says that a sweep is running. What it sends is counted in ``swept``, everything else in ``requests``.
    """

    def __init__(self) -> None:
        self.requests = Requests()
        self.swept = Requests()
        self.sweeping = False
        self._arrived: asyncio.Queue[Message] = asyncio.Queue()
        self._numbers = itertools.count()

    def connect(self) -> Line:
        """The connection of one more process."""
        return Line(self)

    def send(self, entries: Sequence[dict[str, Any]]) -> None:
        """One request to send these messages."""
        self._count(swept=self.sweeping, sends=1)
        for each in entries:
            message = Message(f"message-{next(self._numbers)}", each["MessageBody"], self.sweeping)
            self._arrive(message, each["DelaySeconds"])

    async def deliver(self, deliver: Deliver) -> None:
        """Deliver what arrives, one batch after another, until cancelled."""
        while True:
            batch = [await self._arrived.get()]
            while len(batch) < BATCH and not self._arrived.empty():
                batch.append(self._arrived.get_nowait())
            self._count(swept=all(each.swept for each in batch), receives=1)
            failed = await deliver(batch)
            for each in batch:
                if each.id in failed:
                    self._arrive(each, REDELIVERY_SECONDS)

    def reset(self) -> None:
        """Reset the counters."""
        self.requests, self.swept = Requests(), Requests()

    def _count(self, *, swept: bool, sends: int = 0, receives: int = 0) -> None:
        if swept:
            self.swept = self.swept.plus(sends=sends, receives=receives)
        else:
            self.requests = self.requests.plus(sends=sends, receives=receives)

    def _arrive(self, message: Message, delay_seconds: float) -> None:
        asyncio.get_running_loop().call_later(delay_seconds, self._arrived.put_nowait, message)


class Line:
    """A connection to the queue. Its address is looked up once for each process, which is not counted."""

    def __init__(self, queue: TrialQueue) -> None:
        self._queue = queue

    async def send(self, operation: str, parameters: dict[str, Any]) -> dict[str, Any]:
        """See ``Connection.send``."""
        if operation == "SendMessageBatch":
            self._queue.send(parameters["Entries"])
        return {"QueueUrl": "trial", "Failed": []}

    def close(self) -> None:
        """See ``Connection.close``."""


def event_of(messages: Sequence[Message]) -> dict[str, Any]:
    """A batch as Lambda hands it to a function."""
    return {
        "Records": [
            {
                "messageId": each.id,
                "body": each.body,
                "attributes": {},
                "eventSource": "aws:sqs",
                "eventSourceARN": ARN,
            }
            for each in messages
        ]
    }
