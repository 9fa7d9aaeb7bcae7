"""What reaches the function by itself, and how late: ordered messages behind a poisoned one, lost wake-ups, timers."""

from __future__ import annotations

import asyncio
import json
from typing import Any, Final

from msgspec.structs import replace

from holdfast.backends.aws import Bells, LocalDoorbell, open_aws_home
from holdfast.backends.aws.names import ORDERED, queue
from holdfast.clock import elapsed_seconds
from holdfast.errors import StoreUnavailable
from holdfast.ports import Home
from holdfast.verify.bench import Bench
from holdfast.verify.finding import Finding, differences
from holdfast.verify.invoking import call, invoke
from holdfast.verify.spread import at
from holdfast.verify.trial import INBOX, POISON, trial

POISONED: Final = "poisoned ordered message"
LOST: Final = "lost wake-ups"
TIMERS: Final = "timers"

PARKED_WITHIN_SECONDS: Final = 240.0
FOUND_WITHIN_SECONDS: Final = 150.0
ENDED_WITHIN_SECONDS: Final = 120.0

GOOD: Final = "good"
LOST_STARTS: Final = 5
NAPS: Final = 5
NAP_SECONDS: Final = 5


async def poisoned(bench: Bench) -> Finding:
    """One actor gets a message that always fails, and one behind it. The first is parked, the second is applied."""
    began = elapsed_seconds()
    name = queue(bench.record.prefix, ORDERED)
    url = (await bench.cloud.send("sqs", "GetQueueUrl", QueueName=name))["QueueUrl"]
    for what in (POISON, GOOD):
        body = json.dumps({"actor": INBOX, "method": "take", "args": [what]})
        ids = {"MessageGroupId": "poisoned", "MessageDeduplicationId": what}
        await bench.cloud.send("sqs", "SendMessage", QueueUrl=url, MessageBody=body, **ids)

    async def look() -> bool | None:
        return (await invoke(bench, call("poisoned", "all", actor=INBOX))) == [GOOD] or None

    try:
        await bench.cloud.until(look, "the message behind the poisoned one", seconds=PARKED_WITHIN_SECONDS)
    except StoreUnavailable as late:
        return differences(POISONED, [str(late)])
    seconds = elapsed_seconds() - began
    parked = (await invoke(bench, {"holdfast": "dlq-list", "actor": INBOX}))["items"]
    wrong = [] if len(parked) == 1 else [f"{len(parked)} messages are parked, not 1"]
    told = f"it was parked after its attempts, and the next one was applied, {seconds:.1f} s after both were sent"
    return differences(POISONED, wrong, told=told, **{"until the next, s": seconds})


async def lost(bench: Bench) -> Finding:
    """Workflows are started here, and no wake-up is sent: the stream tells the function, or else its sweep."""
    made = trial(lambda: _silent(bench))
    async with made.app:

        async def lag(id: str) -> float:
            began = elapsed_seconds()
            await made.once.start(id=id)
            await _ended(bench, "once", id, FOUND_WITHIN_SECONDS)
            return elapsed_seconds() - began

        try:
            lags = await asyncio.gather(*(lag(f"lost-{number}") for number in range(LOST_STARTS)))
        except StoreUnavailable as late:
            return differences(LOST, [str(late)])
    told = f"found and ended after {at(lags, 50):.1f} s (p50), {at(lags, 99):.1f} s (p99)"
    return differences(LOST, [], told=told, **{"p50, s": at(lags, 50), "p99, s": at(lags, 99)})


async def timers(bench: Bench) -> Finding:
    """Workflows that sleep: how long after its due time each has ended, by the clocks of the function."""
    ids = [f"nap-{number}" for number in range(NAPS)]
    for id in ids:
        await invoke(bench, {"holdfast": "start", "workflow": "nap", "id": id, "input": [NAP_SECONDS]})
    try:
        ended = [await _ended(bench, "nap", id, ENDED_WITHIN_SECONDS) for id in ids]
    except StoreUnavailable as late:
        return differences(TIMERS, [str(late)])
    lags = [each["result"] / 1000 for each in ended]
    wrong = [f"a sleep of {NAP_SECONDS} s ended {-min(lags):.1f} s early"] if min(lags) < 0 else []
    told = f"ended {at(lags, 50):.1f} s (p50) to {max(lags):.1f} s after they were due"
    return differences(TIMERS, wrong, told=told, **{"p50, s": at(lags, 50), "most, s": max(lags)})


async def _ended(bench: Bench, workflow: str, id: str, seconds: float) -> dict[str, Any]:
    async def look() -> dict[str, Any] | None:
        status: dict[str, Any] = await invoke(bench, {"holdfast": "status", "workflow": workflow, "id": id})
        return status if status["status"] == "COMPLETED" else None

    return await bench.cloud.until(look, f"the end of {workflow} {id}", seconds=seconds)


async def _silent(bench: Bench) -> Home:
    """The home without a way to send wake-ups."""
    owner = "verify-silent"
    home = await open_aws_home(bench.url, owner=owner)
    await asyncio.shield(home.doorbell.close())
    return replace(home, doorbell=LocalDoorbell(Bells(), owner), invoker=None)
