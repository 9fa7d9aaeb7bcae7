"""Wake-ups as messages of SQS, at once or with a delay that is exact to the second.

A wake-up is a hint: sent twice, late or lost it does no harm. So one that fails is tried a few times and then dropped,
and the sweep finds the work.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

import msgspec

from holdfast.backends.aws.connection import Connection
from holdfast.backends.aws.tries import TRIES, is_hopeless, pause_before, refused_for
from holdfast.ports import WakeUp

BATCH: Final = 10
"""The most entries of one SendMessageBatch (API reference)."""

LONGEST_DELAY_SECONDS: Final = 15 * 60
"""The longest DelaySeconds of a message, which no wake-up needs, for sweeps look ahead (``ports.AHEAD_MS``).

("Amazon SQS message timers", developer guide:
https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/sqs-message-timers.html)
"""


class WakeUpsLost(Exception):
    """These wake-ups could not be sent. ``hopeless``: no other could be, for now."""

    def __init__(self, wake_ups: Sequence[WakeUp], reason: str, *, hopeless: bool) -> None:
        super().__init__(reason)
        self.wake_ups = wake_ups
        self.hopeless = hopeless


class Bellringer:
    """Sends to the queue of the function that works on an entity: ``queue_of`` names it by the partition. A queue is
    looked up when it is first needed.
    """

    def __init__(self, connection: Connection, queue_of: Callable[[str], str]) -> None:
        self._connection = connection
        self._queue_of = queue_of
        self._urls: dict[str, str] = {}
        self._looking_up = asyncio.Lock()

    async def send(self, wake_ups: Iterable[WakeUp], now: int) -> list[WakeUpsLost]:
        """Send them, each to arrive when it is due and not before, ten to a request, concurrently; returns what was
        lost.
        """
        by_queue: dict[str, list[WakeUp]] = {}
        for wake_up in wake_ups:
            by_queue.setdefault(self._queue_of(wake_up.partition), []).append(wake_up)
        sendings = [
            self._send(queue, every[n : n + BATCH], now)
            for queue, every in by_queue.items()
            for n in range(0, len(every), BATCH)
        ]
        came = await asyncio.gather(*sendings, return_exceptions=True)
        lost = [each for each in came if isinstance(each, WakeUpsLost)]
        for each in came:
            if isinstance(each, BaseException) and not isinstance(each, WakeUpsLost):
                raise each
        return lost

    async def _send(self, queue: str, wake_ups: Sequence[WakeUp], now: int) -> None:
        """Send at most ten. Raises ``WakeUpsLost``."""
        entries = [
            {"Id": str(n), "MessageBody": body(wake_up), "DelaySeconds": _delay_seconds(wake_up, now)}
            for n, wake_up in enumerate(wake_ups)
        ]
        reason = ""
        for attempt in range(TRIES):
            await pause_before(attempt)
            try:
                answer = await self._connection.send(
                    "SendMessageBatch", {"QueueUrl": await self._queue_url(queue), "Entries": entries}
                )
            except Exception as error:
                reason = refused_for(error)
                if is_hopeless(error):
                    raise WakeUpsLost(_named(entries, wake_ups), reason, hopeless=True) from error
                continue
            failed = {each["Id"]: each for each in answer.get("Failed", ())}
            if not failed:
                return
            reason = ", ".join(sorted({str(each.get("Code")) for each in failed.values()}))
            entries = [each for each in entries if each["Id"] in failed]
        raise WakeUpsLost(_named(entries, wake_ups), reason, hopeless=False)

    async def _queue_url(self, queue: str) -> str:
        async with self._looking_up:
            if queue not in self._urls:
                answer = await self._connection.send("GetQueueUrl", {"QueueName": queue})
                self._urls[queue] = str(answer["QueueUrl"])
            return self._urls[queue]

    def close(self) -> None:
        """Send nothing more."""
        self._connection.close()


def body(wake_up: WakeUp) -> str:
    """A wake-up as the body of a message."""
    return json.dumps(msgspec.to_builtins(wake_up))


def _delay_seconds(wake_up: WakeUp, now: int) -> int:
    return min(max(0, -(-(wake_up.due_at - now) // 1000)), LONGEST_DELAY_SECONDS)


def _named(entries: Sequence[dict[str, Any]], wake_ups: Sequence[WakeUp]) -> list[WakeUp]:
    return [wake_ups[int(each["Id"])] for each in entries]
