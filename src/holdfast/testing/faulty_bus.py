"""The bus in tests: a bus for any home, and a bus with faults."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import Any

from msgspec.structs import replace

from holdfast.bus import BusEvent, EventBus, NotTaken, Unfit
from holdfast.errors import StoreUnavailable
from holdfast.opening import open_home
from holdfast.ports import Home
from holdfast.testing.wire import Wire


def with_bus(url: str, bus: EventBus) -> Callable[[], Coroutine[Any, Any, Home]]:
    """Opens the home of this URL with this bus: for ``hf.App(..., home=with_bus(url, bus))``."""

    async def open_with_bus() -> Home:
        return replace(await open_home(url), bus=bus)

    return open_with_bus


class FaultyBus:
    """A bus behind a ``Wire``: putting events counts as one write, and fails like one."""

    def __init__(self, bus: EventBus, wire: Wire) -> None:
        self._bus = bus
        self._wire = wire

    async def put(self, events: Sequence[BusEvent]) -> Sequence[NotTaken | Unfit | None]:
        """See ``EventBus.put``. Events whose request or answer was lost count as not accepted."""

        def put() -> Awaitable[Sequence[NotTaken | Unfit | None]]:
            return self._bus.put(events)

        try:
            return await self._wire.send(put)
        except StoreUnavailable as error:
            return [NotTaken(str(error))] * len(events)
