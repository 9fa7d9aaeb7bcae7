"""The memory that the bodies of requests take together, which is bounded for all callers together."""

from __future__ import annotations

from holdfast.http.problems import overloaded


class Room:
    """The memory that the bodies of all requests under way may take together."""

    def __init__(self, limit_bytes: int) -> None:
        self._left_bytes = limit_bytes

    def take(self, size_bytes: int) -> None:
        """Take some of it until it is given back. Raises ``Problem`` if not enough is left."""
        if size_bytes > self._left_bytes:
            raise overloaded("the bodies of other requests take all the memory there is for them; send it again later")
        self._left_bytes -= size_bytes

    def give_back(self, size_bytes: int) -> None:
        """Give back what was taken."""
        self._left_bytes += size_bytes


class Share:
    """The part of the room that one body takes."""

    def __init__(self, room: Room) -> None:
        self._room = room
        self._taken_bytes = 0

    def grow_to(self, size_bytes: int) -> None:
        """Take room for a body that has this size now. Raises ``Problem`` if not enough is left."""
        self._room.take(size_bytes - self._taken_bytes)
        self._taken_bytes = size_bytes

    def give_back(self) -> None:
        """Give back the room of the body."""
        self._room.give_back(self._taken_bytes)
        self._taken_bytes = 0
