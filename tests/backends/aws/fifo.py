"""A FIFO queue of SQS in virtual time, as far as its guide says how it behaves, and Lambda's poller in front of it.

A group is blocked while a message of it is hidden. A message that was received too often is moved to the dead letters
when it is received once more, under its own id as deduplication id.
"""

from __future__ import annotations

import asyncio
import itertools
import json
from collections.abc import Callable, Sequence
from typing import Any

from holdfast.ports import Postponed
from holdfast.runtime.lambda_ import LambdaHandler

ARN = "arn:aws:sqs:eu-west-1:000000000000:test-holdfast-ordered.fifo"
VISIBILITY_SECONDS = 360.0
WINDOW_SECONDS = 300.0


class Kept:
    """A message in the queue."""

    def __init__(self, id: str, group: str, dedup: str, body: str, sequence: int, sent_at: int) -> None:
        self.id, self.group, self.dedup, self.body = id, group, dedup, body
        self.sequence, self.sent_at = sequence, sent_at
        self.receives = 0
        self.visible_at = 0
        self.receipt = ""

    def record(self, arn: str) -> dict[str, Any]:
        """As Lambda hands it on."""
        attributes = {
            "MessageGroupId": self.group,
            "MessageDeduplicationId": self.dedup,
            "SequenceNumber": f"{self.sequence:020d}",
            "SentTimestamp": str(self.sent_at),
            "ApproximateReceiveCount": str(self.receives),
        }
        return {
            "messageId": self.id,
            "receiptHandle": self.receipt,
            "body": self.body,
            "attributes": attributes,
            "eventSource": "aws:sqs",
            "eventSourceARN": arn,
        }


class Fifo:
    """``now_ms`` tells the time. ``receives`` is the queue's maxReceiveCount."""

    def __init__(self, now_ms: Callable[[], int], arn: str = ARN, *, first: int = 1, receives: int = 100) -> None:
        self.now_ms = now_ms
        self.arn = arn
        self.receives = receives
        self.kept: list[Kept] = []
        self.dead: list[Kept] = []
        self.handed: list[tuple[str, ...]] = []
        self.postponed: list[float] = []
        self.broken = ""
        self._sequence = itertools.count(first)
        self._numbers = itertools.count()
        self._sent: dict[tuple[str, str], int] = {}

    def send(self, group: str, body: Any, *, dedup: str | None = None) -> bool:
        """Send a message; false if it is a duplicate by the queue's own window."""
        now, id = self.now_ms(), f"{self.arn[-12:]}-{next(self._numbers)}"
        known = self._sent.get((group, dedup or id))
        if known is not None and now < known + WINDOW_SECONDS * 1000:
            return False
        self._sent[group, dedup or id] = now
        text = body if isinstance(body, str) else json.dumps(body)
        self.kept.append(Kept(id, group, dedup or id, text, next(self._sequence), now))
        return True

    def receive(self, most: int = 10) -> list[Kept]:
        now = self.now_ms()
        hidden = {each.group for each in self.kept if each.visible_at > now}
        found: list[Kept] = []
        for each in list(self.kept):
            if each.group in hidden or len(found) == most:
                continue
            if each.receives >= self.receives:
                self.kept.remove(each)
                each.dedup = each.id
                self.dead.append(each)
                continue
            each.receives += 1
            each.visible_at = now + int(VISIBILITY_SECONDS * 1000)
            each.receipt = f"{each.id}/{each.receives}"
            found.append(each)
        return found

    def delete(self, id: str) -> None:
        self.kept = [each for each in self.kept if each.id != id]

    async def postpone(self, messages: Sequence[Postponed], /) -> str:
        """See ``Redelivery.postpone``."""
        for each in messages:
            assert each.queue == self.arn
            self.postponed.append(each.seconds)
            for kept in self.kept:
                if kept.receipt == each.receipt and not self.broken:
                    kept.visible_at = self.now_ms() + -(-int(each.seconds * 1000) // 1000) * 1000
        return self.broken

    def event(self, messages: list[Kept]) -> dict[str, Any]:
        return {"Records": [each.record(self.arn) for each in messages]}

    def settle(self, messages: list[Kept], answer: dict[str, Any]) -> None:
        """Delete what is done, as Lambda does."""
        failed = {each["itemIdentifier"] for each in answer["batchItemFailures"]}
        for each in messages:
            if each.id not in failed:
                self.delete(each.id)

    async def deliver(self, handler: LambdaHandler, *, forget: bool = False) -> bool:
        """Hand a batch to an environment; false if there is none now. ``forget``: the answer gets lost."""
        messages = self.receive()
        if not messages:
            return False
        self.handed.append(tuple(each.dedup for each in messages))
        answer = await handler.invoke(self.event(messages))
        if not forget:
            self.settle(messages, answer)
        return True

    async def deliver_all(self, handler: LambdaHandler, *, within: float = 36_000.0) -> None:
        """Deliver until the queue is empty."""
        until = asyncio.get_running_loop().time() + within
        while self.kept:
            assert asyncio.get_running_loop().time() < until, "the queue does not become empty"
            if not await self.deliver(handler):
                await asyncio.sleep(1)
