"""Wake-ups as messages: by SQS, at once or with a delay, and by a schedule of EventBridge if they are far away.

A wake-up is a hint: sent twice, late or lost it does no harm. So one that fails is tried a few times and then dropped,
and the sweep finds the work.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Final

import msgspec
from msgspec import Struct

from holdfast import ids
from holdfast.backends.aws.connection import Connection
from holdfast.backends.aws.tries import TRIES, code_of, is_hopeless, pause_before, refused_for
from holdfast.ports import WakeUp

BATCH: Final = 10
"""The most entries of one SendMessageBatch (API reference)."""

LONGEST_DELAY_MS: Final = 15 * 60 * 1000
"""The longest DelaySeconds of a message ("Amazon SQS message timers", developer guide)."""

LAST_LEG_MS: Final = 2 * 60 * 1000
"""A schedule fires within its minute ("Schedule types in EventBridge Scheduler"), so it fires that much earlier. The
rest is the delay of a message, which is exact to the second."""


class WakeUpsLost(Exception):
    """``count`` wake-ups could not be sent. ``hopeless``: no other could be, for now."""

    def __init__(self, count: int, reason: str, *, hopeless: bool) -> None:
        super().__init__(reason)
        self.count = count
        self.hopeless = hopeless


class Queue:
    """The queue of the doorbell. It is looked up when it is first needed."""

    def __init__(self, connection: Connection, name: str) -> None:
        self._connection = connection
        self._name = name
        self._url: str | None = None
        self._arn: str | None = None
        self._looking_up = asyncio.Lock()

    async def url(self) -> str:
        """The queue's URL."""
        async with self._looking_up:
            if self._url is None:
                answer = await self._connection.send("GetQueueUrl", {"QueueName": self._name})
                self._url = str(answer["QueueUrl"])
            return self._url

    async def arn(self) -> str:
        """The queue's ARN, for schedules."""
        if self._arn is None:
            asked = {"QueueUrl": await self.url(), "AttributeNames": ["QueueArn"]}
            answer = await self._connection.send("GetQueueAttributes", asked)
            self._arn = str(answer["Attributes"]["QueueArn"])
        return self._arn

    async def send(self, wake_ups: Sequence[WakeUp], now: int) -> None:
        """Send at most ten, each to arrive when it is due and not before. Raises ``WakeUpsLost``."""
        entries = [
            {"Id": str(n), "MessageBody": body(wake_up), "DelaySeconds": max(0, -(-(wake_up.due_at - now) // 1000))}
            for n, wake_up in enumerate(wake_ups)
        ]
        reason = ""
        for attempt in range(TRIES):
            await pause_before(attempt)
            try:
                answer = await self._connection.send(
                    "SendMessageBatch", {"QueueUrl": await self.url(), "Entries": entries}
                )
            except Exception as error:
                reason = refused_for(error)
                if is_hopeless(error):
                    raise WakeUpsLost(len(entries), reason, hopeless=True) from error
                continue
            failed = {each["Id"]: each for each in answer.get("Failed", ())}
            if not failed:
                return
            reason = ", ".join(sorted({str(each.get("Code")) for each in failed.values()}))
            entries = [each for each in entries if each["Id"] in failed]
        raise WakeUpsLost(len(entries), reason, hopeless=False)

    def close(self) -> None:
        """Send nothing more."""
        self._connection.close()


class Schedules:
    """One-time schedules that send a wake-up and are then deleted. ``role`` is what lets the Scheduler send to the
    queue.
    """

    def __init__(self, connection: Connection, group: str, role: str, queue: Queue) -> None:
        self._connection = connection
        self._group = group
        self._role = role
        self._queue = queue

    async def set(self, wake_up: WakeUp) -> None:
        """Send a wake-up shortly before it is due. The same wake-up is the same schedule. Raises ``WakeUpsLost``."""
        at = datetime.fromtimestamp((wake_up.due_at - LAST_LEG_MS) // 1000, UTC)
        reason = ""
        for attempt in range(TRIES):
            await pause_before(attempt)
            try:
                await self._connection.send(
                    "CreateSchedule",
                    {
                        "Name": f"ring-{ids.fingerprint(f'{wake_up.partition}@{wake_up.due_at}'.encode())}",
                        "GroupName": self._group,
                        "ScheduleExpression": f"at({at:%Y-%m-%dT%H:%M:%S})",
                        "FlexibleTimeWindow": {"Mode": "OFF"},
                        "ActionAfterCompletion": "DELETE",
                        "Target": {"Arn": await self._queue.arn(), "RoleArn": self._role, "Input": body(wake_up)},
                    },
                )
            except Exception as error:
                if code_of(error) == "ConflictException":
                    return  # it exists already
                reason = refused_for(error)
                if is_hopeless(error):
                    raise WakeUpsLost(1, reason, hopeless=False) from error
            else:
                return
        raise WakeUpsLost(1, reason, hopeless=False)

    def close(self) -> None:
        """Create no more schedules."""
        self._connection.close()


class Bellringer(Struct, frozen=True):
    """The ways of a wake-up. Without ``schedules`` distant ones are left to the sweep."""

    queue: Queue
    schedules: Schedules | None

    async def send(self, wake_ups: Iterable[WakeUp], now: int) -> list[WakeUpsLost]:
        """Send them, concurrently; returns what was lost."""
        near: list[WakeUp] = []
        far: list[WakeUp] = []
        for wake_up in wake_ups:
            (near if wake_up.due_at - now <= LONGEST_DELAY_MS else far).append(wake_up)
        sendings = [self.queue.send(near[n : n + BATCH], now) for n in range(0, len(near), BATCH)]
        if self.schedules is not None:
            sendings += [self.schedules.set(wake_up) for wake_up in far]
        came = await asyncio.gather(*sendings, return_exceptions=True)
        lost = [each for each in came if isinstance(each, WakeUpsLost)]
        for each in came:
            if isinstance(each, BaseException) and not isinstance(each, WakeUpsLost):
                raise each
        return lost

    def close(self) -> None:
        """Send nothing more."""
        self.queue.close()
        if self.schedules is not None:
            self.schedules.close()


def body(wake_up: WakeUp) -> str:
    """A wake-up as the body of a message."""
    return json.dumps(msgspec.to_builtins(wake_up))
