"""The bus: events by PutEvents of EventBridge. Every entry of every answer is checked.

A successful request may have accepted only some of its entries ("Sending events with PutEvents", EventBridge user
guide): the others are sent again, and only they. If an answer is lost, all are sent again, so an event may come twice.
A missing bus accepts everything, says so, and drops it (the same page): so the bus is looked up by its name before the
first event.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, Final

from holdfast.backends.aws.connection import Connection
from holdfast.backends.aws.tries import TRIES, code_of, is_hopeless, pause_before, refused_for
from holdfast.bus import BusEvent, NotTaken, Unfit

LARGEST_ENTRIES: Final = 10
"""The most entries of one PutEvents (API reference)."""

LARGEST_BYTES: Final = 1_000_000
"""An event and a request may have 1 MB since January 2026 (AWS Compute Blog); it was 256 KB. A little is left for what
EventBridge adds to an entry when it delivers it ("Calculating PutEvents event entry size", user guide)."""

UNFIT: Final = frozenset(
    {"InvalidArgument", "MalformedDetail", "NotAuthorizedForDetailTypeException", "NotAuthorizedForSourceException"}
)
"""The refusals that are due to the entry itself (PutEventsResultEntry, API reference). After any other refusal the same
entry may be accepted later: when the bus is less busy, or a role is repaired."""

Verdict = NotTaken | Unfit | None


class EventBridgeBus:
    """A bus, by its name or ARN."""

    def __init__(self, connection: Connection, name: str) -> None:
        self._connection = connection
        self._name = name
        self._known = False

    async def put(self, events: Sequence[BusEvent]) -> Sequence[Verdict]:
        """See ``EventBus.put``."""
        if (lack := await self._lack()) is not None:
            return [NotTaken(lack)] * len(events)
        verdicts: list[Verdict] = [None] * len(events)
        fitting: list[int] = []
        for n, event in enumerate(events):
            if (size := size_bytes(event)) > LARGEST_BYTES:
                verdicts[n] = Unfit(f"it has {size:,} bytes, and a bus accepts {LARGEST_BYTES:,}")
            else:
                fitting.append(n)
        batches = batches_of([(n, size_bytes(events[n])) for n in fitting])
        answers = await asyncio.gather(*(self._put([events[n] for n in batch]) for batch in batches))
        for batch, answer in zip(batches, answers, strict=True):
            for n, verdict in zip(batch, answer, strict=True):
                verdicts[n] = verdict
        return verdicts

    async def _lack(self) -> str | None:
        """Why nothing can be put on the bus; ``None`` if it exists."""
        if self._known:
            return None
        try:
            await self._connection.send("DescribeEventBus", {"Name": self._name})
        except Exception as error:  # noqa: BLE001 - after any error it is unknown whether the bus exists
            return f"the bus {self._name} cannot be read by events:DescribeEventBus ({refused_for(error)})"
        self._known = True
        return None

    async def _put(self, events: Sequence[BusEvent]) -> list[Verdict]:
        """Put the events of one request, with as many attempts as make sense now."""
        verdicts: list[Verdict] = [NotTaken("it was not sent")] * len(events)
        left = list(range(len(events)))
        for attempt in range(TRIES):
            await pause_before(attempt)
            try:
                answer = await self._connection.send("PutEvents", {"Entries": [self._entry(events[n]) for n in left]})
            except Exception as error:  # noqa: BLE001 - what AWS or the way there says is an answer here
                for n in left:
                    verdicts[n] = NotTaken(refused_for(error))
                if code_of(error) == "ValidationException":
                    return await self._put_alone(events, left, verdicts)
                if is_hopeless(error):
                    break
                continue
            for n, said in zip(left, answer["Entries"], strict=True):
                verdicts[n] = verdict_of(said)
            left = [n for n in left if isinstance(verdicts[n], NotTaken)]
            if not left:
                break
        return verdicts

    async def _put_alone(self, events: Sequence[BusEvent], left: list[int], verdicts: list[Verdict]) -> list[Verdict]:
        """A request was refused for its content: sending each event alone shows which one is the cause."""
        if len(left) == 1:
            (n,) = left
            said = verdicts[n]
            verdicts[n] = Unfit(said.reason) if isinstance(said, NotTaken) else said
            return verdicts
        for n in left:
            (verdicts[n],) = await self._put([events[n]])
        return verdicts

    def _entry(self, event: BusEvent) -> dict[str, Any]:
        return {
            "EventBusName": self._name,
            "Source": event.source,
            "DetailType": event.type,
            "Detail": event.detail.decode(),
        }

    def close(self) -> None:
        """Send nothing more."""
        self._connection.close()


def verdict_of(said: dict[str, Any]) -> Verdict:
    """What an entry of an answer means."""
    code = said.get("ErrorCode")
    if not code:
        return None if said.get("EventId") else NotTaken("the answer does not confirm it")
    reason = f"{code}: {said.get('ErrorMessage', '')}"
    return Unfit(reason) if code in UNFIT else NotTaken(reason)


def size_bytes(event: BusEvent) -> int:
    """The size of an entry, as EventBridge counts it.

    >>> size_bytes(BusEvent("holdfast.shop", "OrderPlaced", b"{}"))
    26
    """
    return len(event.source.encode()) + len(event.type.encode()) + len(event.detail)


def batches_of(sizes: Sequence[tuple[int, int]]) -> list[list[int]]:
    """Which events, of these numbers and sizes, go together in one request.

    >>> batches_of([(0, 600_000), (1, 600_000), (2, 1)])
    [[0], [1, 2]]
    """
    batches: list[list[int]] = []
    held_bytes = 0
    for n, size in sizes:
        if batches and len(batches[-1]) < LARGEST_ENTRIES and held_bytes + size <= LARGEST_BYTES:
            batches[-1].append(n)
            held_bytes += size
        else:
            batches.append([n])
            held_bytes = size
    return batches
