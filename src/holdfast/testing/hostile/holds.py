"""Items that transactions hold, what is visible of them, and single writes under way."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Collection, Generator, Iterable, Iterator

from holdfast.testing.hostile.tables import Item, Place


class Held:
    """A transaction under way. Others on its places are refused ``until`` a time, and from then on wait for its end: an
    emulator may be slower than the service. ``hidden`` are the places that still show what was there ``before``.
    """

    def __init__(self, places: Collection[Place], until: float) -> None:
        self.places = frozenset(places)
        self.until = until
        self.done = asyncio.Event()
        self.before: dict[Place, Item | None] = {}
        self.hidden: set[Place] = set()


class Holds:
    """Which places are held, and which are being written."""

    def __init__(self) -> None:
        self._held: dict[Place, Held] = {}
        self._writing: dict[Place, tuple[int, asyncio.Event]] = {}

    def conflicts(self, place: Place, now: float) -> bool:
        """Whether a request about it is refused because of a transaction."""
        held = self._held.get(place)
        return held is not None and now < held.until

    def is_written(self, place: Place) -> bool:
        """Whether a single write of it is under way."""
        return place in self._writing

    def holder(self, places: Iterable[Place]) -> Held | None:
        """A transaction that holds one of these."""
        return next((self._held[place] for place in places if place in self._held), None)

    @contextlib.contextmanager
    def writing(self, place: Place) -> Generator[None]:
        """A single write of it is under way."""
        count, done = self._writing.get(place) or (0, asyncio.Event())
        self._writing[place] = (count + 1, done)
        try:
            yield
        finally:
            count, _ = self._writing[place]
            if count > 1:
                self._writing[place] = (count - 1, done)
            else:
                del self._writing[place]
                done.set()

    @contextlib.contextmanager
    def held(self, places: Collection[Place], until: float) -> Generator[Held]:
        """A transaction holds these, which no other one holds."""
        held = Held(places, until)
        self._held |= dict.fromkeys(held.places, held)
        try:
            yield held
        finally:
            for place in held.places:
                del self._held[place]
            held.done.set()

    async def until_written(self, places: Iterable[Place]) -> None:
        """Wait for the single writes that began before a transaction held their places."""
        for place in places:
            while place in self._writing:
                await self._writing[place][1].wait()

    def under_way(self) -> Iterator[Held]:
        """The transactions that hide some of their items."""
        yield from {id(held): held for held in self._held.values() if held.hidden}.values()
