"""Streams of one type: what is declared once for all of them, and their events in one order."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from random import Random
from typing import Any, Final, Generic, TypeVar

from holdfast import ids
from holdfast.coordination.stream.following import Bell, follow
from holdfast.coordination.stream.handle import Stream, checked_version
from holdfast.coordination.stream.kinds import Kinds
from holdfast.coordination.stream.log import decode_pointer, last_position, partition_of, pointers, sequencer_of
from holdfast.coordination.stream.record import Place, Recorded, event_sort, recorded
from holdfast.errors import ConfigurationError
from holdfast.keys import check_key
from holdfast.opened import Opened

T = TypeVar("T")

PAGE_EVENTS: Final = 200


class Streams(Generic[T]):
    """All streams of one type. ``name`` is their name in the store; if ``ordered``, all their events have one order."""

    def __init__(self, name: str, kinds: Kinds, connect: Callable[[], Opened], bell: Bell, *, ordered: bool) -> None:
        self.name = name
        self.kinds = kinds
        self.opened = connect
        self.bell = bell
        self.ordered = ordered
        self.random = Random(ids.new_seed())
        """Of the back-off only."""

    def __repr__(self) -> str:
        return f"<Streams {self.name}>"

    def at(self, *key: str) -> Stream[T]:
        """The stream under this key, of one part or several. Reads nothing. Raises ``InvalidInput``."""
        return Stream(self, Place(self.name, check_key("stream", key)))

    async def position(self) -> int:
        """How many events all streams have together. Raises ``ConfigurationError`` if they are not ordered."""
        return await last_position(self._log().home.store, self.name)

    async def read(self, *, after: int = 0, limit: int | None = None) -> AsyncGenerator[Recorded[T]]:
        """The events of all streams behind a position, in the order in which they were committed, at most ``limit`` of
        them. Positions have no gaps, and an event is seen only after all before it: continue behind the last one.
        """
        checked_version(after)
        store, left = self._log().home.store, limit
        while left is None or left > 0:
            page = await pointers(store, self.name, after, PAGE_EVENTS if left is None else min(left, PAGE_EVENTS))
            for entry in page.items:
                pointer = decode_pointer(entry.body)
                place = Place(self.name, pointer.key)
                item = await store.get(place.partition, event_sort(pointer.version))
                assert item is not None  # it was appended together with its place in the log, and events stay
                found = recorded(place, item, self.kinds)
                after = found.position
                yield found
            left = None if left is None else left - len(page.items)
            if page.cursor is None:
                return

    def follow(self, *, after: int = 0) -> AsyncGenerator[Recorded[T]]:
        """The events of all streams behind a position, then each new one soon after it is committed, without end."""
        self._log()
        return follow(
            self.bell, partition_of(self.name), lambda last: self.read(after=last), checked_version(after), _position
        )

    def ring_log(self) -> None:
        """Wake the followers of all streams."""
        self.bell.ring(partition_of(self.name))

    def _log(self) -> Opened:
        if not self.ordered:
            raise ConfigurationError(f"the streams {self.name!r} have no common order: declare them with ordered=True")
        opened = self.opened()
        sequencer_of(opened.home)
        return opened


def _position(found: Recorded[Any]) -> int:
    return found.position
