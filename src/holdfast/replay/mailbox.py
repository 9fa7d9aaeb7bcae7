"""Messages that wait for a body to take them."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Sequence
from typing import Any, Final

from msgspec import Raw


class Mailbox:
    """Messages of one name that were not taken yet, first in, first out.

    It is what a queue of asyncio is, and tells besides whether a message is waited for.
    """

    __slots__ = ("_messages", "_takers")

    def __init__(self) -> None:
        self._messages: deque[Raw] = deque()
        self._takers: deque[tuple[asyncio.Future[None], Any]] = deque()

    @property
    def waiting(self) -> bool:
        """Whether a task waits for a message."""
        return bool(self.takers)

    @property
    def takers(self) -> Sequence[asyncio.Future[None]]:
        """What the tasks wait for that wait for a message, the one that gets the next message first."""
        return [taker for taker, _ in self._takers if not taker.done()]

    @property
    def types(self) -> Sequence[Any]:
        """The types that these tasks read their messages as, in the same order."""
        return [type for taker, type in self._takers if not taker.done()]

    @property
    def unread(self) -> Sequence[Raw]:
        """The messages that were not taken, in the order in which they came."""
        return tuple(self._messages)

    def put(self, message: Raw) -> None:
        """Add a message, for the task that has waited longest."""
        self._messages.append(message)
        self._wake_next()

    async def get(self, type: Any = Any) -> Raw:
        """The next message. Waits for one if there is none; a task that is cancelled meanwhile takes none. ``type`` is
        what the task reads it as: it is only told (``types``).
        """
        while not self._messages:
            taker: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            waiting = (taker, type)
            self._takers.append(waiting)
            try:
                await taker
            except BaseException:
                if self._messages and taker.done() and not taker.cancelled():  # it was woken for a message it leaves
                    self._wake_next()
                raise
            finally:
                if waiting in self._takers:
                    self._takers.remove(waiting)
        return self._messages.popleft()

    def _wake_next(self) -> None:
        while self._takers:
            taker, _ = self._takers.popleft()
            if not taker.done():
                taker.set_result(None)
                return


NONE: Final[dict[str, Mailbox]] = {}
"""Shared by all bodies that wait for no message: the first one makes another."""


class Mailboxes:
    """The messages of one body, by name."""

    __slots__ = ("_by_name",)

    def __init__(self) -> None:
        self._by_name: dict[str, Mailbox] = NONE

    def of(self, name: str) -> Mailbox:
        """The messages called ``name`` that were not taken yet, first in, first out."""
        if name not in self._by_name:
            self._by_name = self._by_name or {}
            self._by_name[name] = Mailbox()
        return self._by_name[name]

    @property
    def waiting(self) -> bool:
        """Whether the body waits for any message."""
        return any(mailbox.waiting for mailbox in self._by_name.values())

    def takers(self) -> list[tuple[str, asyncio.Future[None]]]:
        """What tasks wait for a message, by its name."""
        return [(name, taker) for name, box in self._by_name.items() for taker in box.takers]

    def unread(self) -> list[tuple[str, Raw]]:
        """The messages that were not taken, by name. They stay where they are: the caller may have to ask again."""
        return [(name, message) for name, box in self._by_name.items() for message in box.unread]
