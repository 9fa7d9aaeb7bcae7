"""Following new events: woken by a hint, and by the clock in case the hint was lost."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from typing import Final, Protocol, TypeVar

from holdfast.backoff import Pauses
from holdfast.coordination.stream.record import Recorded

T = TypeVar("T")

FIRST_LOOK_SECONDS: Final = 0.2
LOOK_AGAIN_GROWTH: Final = 1.5
LONGEST_LOOK_SECONDS: Final = 5.0
"""When a follower reads again without a wake-up, in case one was lost."""


class Listening(Protocol):
    """A follower that waits for wake-ups."""

    async def next(self, patience_seconds: float) -> None: ...
    def close(self) -> None: ...


class Bell(Protocol):
    """How followers learn of appends, in this process and in others. A wake-up may be lost."""

    def ring(self, partition: str) -> None: ...
    def listen(self, partition: str) -> Listening: ...


async def follow(
    bell: Bell,
    partition: str,
    read: Callable[[int], AsyncGenerator[Recorded[T]]],
    last: int,
    place_of: Callable[[Recorded[T]], int],
) -> AsyncGenerator[Recorded[T]]:
    """The events of ``read`` behind ``last``, then each new one, woken by wake-ups of ``partition``; without end."""
    listening = bell.listen(partition)
    pauses = Pauses(FIRST_LOOK_SECONDS, LONGEST_LOOK_SECONDS, LOOK_AGAIN_GROWTH)
    try:
        while True:
            before = last
            async with aclosing(read(last)) as news:
                async for found in news:
                    last = place_of(found)
                    yield found
            if last != before:
                pauses.begin_again()
            await listening.next(pauses.take())
    finally:
        listening.close()
