"""The port of a bus, by which events of a home go to other systems."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from msgspec import Struct


class BusEvent(Struct, frozen=True):
    """An event that leaves the home: its source, its type, and its content as a JSON object."""

    source: str
    type: str
    detail: bytes


class NotTaken(Struct, frozen=True):
    """The bus has not accepted an event, or did not confirm it: it may accept it when it is sent again."""

    reason: str


class Unfit(Struct, frozen=True):
    """The bus will never accept this event."""

    reason: str


class EventBus(Protocol):
    """An optional port of homes that publish events to other systems: at least once, in no order."""

    async def put(self, events: Sequence[BusEvent]) -> Sequence[NotTaken | Unfit | None]:
        """Put any number of events on the bus. Returns for each, in order: ``None`` if the bus has it durably.

        The answer of the bus, also that it does not exist, is returned and not raised.
        """
        ...
