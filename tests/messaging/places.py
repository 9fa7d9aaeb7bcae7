"""A store in virtual time, any number of apps on it, and events for them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any

import holdfast as hf
from holdfast.backends.memory import MemoryData, open_memory_home
from holdfast.coordination.inbox import INBOX_PREFIX
from holdfast.items import HEAD, Item
from holdfast.messaging.outbox import ENTRY_PREFIX
from holdfast.ports import Home
from holdfast.testing import VirtualClock, run_virtual
from holdfast.testing.virtual_time import START_MS

FAST = hf.Retry(max_attempts=3, initial="1s", backoff=1, jitter=hf.Jitter.NONE)


@dataclass
class Placed:
    order: str
    cents: int = 0


@dataclass
class Paid:
    order: str


class Place:
    """One store. Every app it makes lives on it, as processes share a database."""

    def __init__(self) -> None:
        self.clock = VirtualClock()
        self.data = MemoryData()

    def app(self, name: str = "shop", **limits: Any) -> hf.App:
        async def open_home() -> Home:
            return open_memory_home(data=self.data)

        return hf.App(name, home=open_home, clock=self.clock, limits=hf.Limits(**limits))

    def now(self) -> float:
        """Seconds since the beginning."""
        return (self.clock.now_ms() - START_MS) / 1000

    def items(self, prefix: str) -> list[Item]:
        """All items whose sort key begins so."""
        return [item for entity in self.data.partitions.values() for item in entity.values() if item.sort[:2] == prefix]

    def heads(self) -> list[Item]:
        return [entity[HEAD] for entity in self.data.partitions.values() if HEAD in entity]

    def unrest(self) -> list[Item]:
        """What is left over where nothing should be: events, messages, leases, due times."""
        busy = [head for head in self.heads() if head.owner is not None or head.due_at is not None]
        return self.items(ENTRY_PREFIX) + self.items(INBOX_PREFIX) + busy

    async def rest(self, seconds: float = 120.0) -> None:
        """Wait until nothing more happens by itself."""
        for _ in range(int(seconds * 10)):
            await asyncio.sleep(0.1)
            if not self.unrest():
                return
        raise AssertionError(f"still busy after {seconds} s: {self.unrest()}")


def virtually(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[[], None]:
    """Run a test of a ``Place`` in virtual time."""

    def run() -> None:
        async def main() -> None:
            await test(Place())

        run_virtual(main)

    run.__name__, run.__doc__ = test.__name__, test.__doc__
    return run
