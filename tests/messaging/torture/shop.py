"""The app of the run: senders that publish in order, a consumer, and books that say what it was given and when."""

from __future__ import annotations

import asyncio
import random
from dataclasses import dataclass
from typing import Any

import holdfast as hf

LIMITS = hf.Limits(lease_ms=1_500, sweep_seconds=0.5, linger_seconds=0.02, near_seconds=0.02, retry_turn_seconds=0.2)
"""Short, so that the relay lets go of its outbox often, and others soon notice who has died."""

ALONE = "alone"
"""The book of the events that stand alone."""

SLOW_SHARE = 0.1


@dataclass
class Numbered:
    """An event: who sent it, and which of his it is."""

    sender: str
    number: int


def make(home: Any, attempted: list[str]) -> tuple[hf.App, type[hf.Actor]]:
    """The app of one process. ``attempted`` collects the keys under which its consumer was run."""
    app = hf.App("torture", home=home, limits=LIMITS)

    class Sender(hf.Actor, app=app):
        """Publishes so many events more."""

        sent: int = 0

        async def publish(self, count: int) -> None:
            for _ in range(count):
                self.sent += 1
                await app.publish(Numbered(self.key, self.sent))

    class Book(hf.Actor, app=app):
        """What the consumer has applied, in the order in which it did."""

        applied: list[int] = hf.field(default_factory=list)

        async def enter(self, number: int) -> None:
            self.applied.append(number)

    @app.consumer(Numbered)
    async def apply(event: Numbered) -> None:
        attempted.append(hf.current().idempotency_key)
        if random.random() < SLOW_SHARE:
            await asyncio.sleep(0.01)
        await hf.send(Book.at(event.sender).enter, event.number)

    return app, Sender
