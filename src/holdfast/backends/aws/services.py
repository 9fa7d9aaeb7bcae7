"""The services around the table, asked whether they are there: for ``holdfast doctor``.

Each is asked once, by a request that a reader may send, and an error is an answer. A home works without a queue
or a bus, but more slowly: sweeps find its work.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import closing
from typing import Any, Final

from msgspec import Struct

from holdfast.backends.aws import names
from holdfast.backends.aws.connection import Connection
from holdfast.backends.aws.tries import MISSING_QUEUE, code_of, refused_for
from holdfast.watched import Reached

COUNTS: Final = (
    "ApproximateNumberOfMessages",
    "ApproximateNumberOfMessagesNotVisible",
    "ApproximateNumberOfMessagesDelayed",
)

LOST_DOORBELL: Final = "no wake-up arrives: functions and workers find their work by sweeps, up to a minute late"
LOST_ORDERED: Final = "no ordered message arrives"
LOST_BUS: Final = "events for other systems wait in the outbox"
LOST_BUCKET: Final = "large values can neither be stored nor read"

Connect = Callable[[str], Connection]
"""Opens a connection to a service; it is closed after the question."""


class AwsServices(Struct, frozen=True):
    """The services of one home."""

    prefix: str
    connect: Connect
    bucket: str | None
    bus: str | None
    doorbells: tuple[str, ...] = (names.DOORBELL,)

    async def check(self) -> list[Reached]:
        """See ``Services.check``."""
        asked = [self._queue(each) for each in (*self.doorbells, names.ORDERED)]
        if self.bus is not None:
            asked.append(_ask("eventbridge", self.connect, "events", "DescribeEventBus", {"Name": self.bus}, LOST_BUS))
        if self.bucket is not None:
            asked.append(_ask("bucket", self.connect, "s3", "HeadBucket", {"Bucket": self.bucket}, LOST_BUCKET))
        return list(await asyncio.gather(*asked))

    async def _queue(self, which: str) -> Reached:
        name = names.queue(self.prefix, which)
        with closing(self.connect("sqs")) as connection:
            try:
                waiting = await _count(connection, name)
                dead = await _count_dead(connection, names.queue(self.prefix, which, dead=True))
            except Exception as error:  # noqa: BLE001 - whatever it is, it is the answer
                if which == names.ORDERED and code_of(error) in MISSING_QUEUE:
                    return Reached(which, "there is no such queue, so none feeds actors from outside")
                return Reached(which, LOST_ORDERED if which == names.ORDERED else LOST_DOORBELL, refused_for(error))
        if dead:
            return Reached(
                which, "find the cause (holdfast dlq ls), then holdfast dlq redrive", f"{dead:,} dead letters of {name}"
            )
        return Reached(which, f"{waiting:,} messages in {name}")


async def _count(connection: Connection, name: str) -> int:
    found = await connection.send("GetQueueUrl", {"QueueName": name})
    asked = {"QueueUrl": found["QueueUrl"], "AttributeNames": list(COUNTS)}
    answer = await connection.send("GetQueueAttributes", asked)
    return sum(int(answer["Attributes"].get(each, 0)) for each in COUNTS)


async def _count_dead(connection: Connection, name: str) -> int:
    """A queue that was not made by the template may have no dead letters."""
    try:
        return await _count(connection, name)
    except Exception as error:
        if code_of(error) in MISSING_QUEUE:
            return 0
        raise


async def _ask(
    name: str, connect: Connect, service: str, operation: str, parameters: dict[str, Any], lost: str
) -> Reached:
    with closing(connect(service)) as connection:
        try:
            await connection.send(operation, parameters)
        except Exception as error:  # noqa: BLE001 - whatever it is, it is the answer
            return Reached(name, lost, refused_for(error))
    return Reached(name, "it answers")
