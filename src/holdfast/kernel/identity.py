"""What tells a run from all others, and names what it asks for: the same whenever it is repeated, in whatever order.

A name comes from what is asked for (whom, what, with which arguments) and its occurrence among those alike. It never
comes from a count of everything before: other branches, and what only reads, may come in another order each time.
"""

from __future__ import annotations

from typing import Final, Protocol

from holdfast import ids

BY_CONTENT: Final = 1
"""How what is asked for is named now. Requests of older versions have no mark, and keep the names they were given."""


class Identity(Protocol):
    """What identifies a run on every repeat of it."""

    @property
    def key(self) -> str:
        """What the run hands to others so that they recognise a repeat of it."""
        ...

    def note_read(self) -> None:
        """The run has asked for something that only reads."""
        ...

    def derive(self, receiver: str, method: str, args: bytes) -> str:
        """The identity of the next such thing that the run asks for."""
        ...


def identity_of(naming: int, salt: str, partition: str, request: str) -> Identity:
    """The identity of the run of a request at an entity, in the home with this salt."""
    return Content(salt, partition, request) if naming else Counted(partition, request)


class Content:
    """Names that follow from what is asked for. They differ between homes, and are of one length however deep."""

    __slots__ = ("_asked", "_key", "_parts")

    def __init__(self, salt: str, partition: str, request: str) -> None:
        self._parts = (salt, partition, request)
        self._key = ""
        self._asked: dict[str, int] = {}

    @property
    def key(self) -> str:
        """See ``Identity.key``. Most runs never ask for it."""
        if not self._key:
            self._key = ids.derive(*self._parts)
        return self._key

    def note_read(self) -> None:
        """Reading takes no name."""

    def derive(self, receiver: str, method: str, args: bytes) -> str:
        """See ``Identity.derive``: those that are alike are told apart by their number among themselves."""
        what = ids.derive(self.key, receiver, method, args.decode())
        occurrence = self._asked.get(what, 0)
        self._asked[what] = occurrence + 1
        return ids.derive(what, str(occurrence))


class Counted:
    """Names as they were given before 1.0: a message that older code has handled in part must find them again."""

    __slots__ = ("_count", "_partition", "_request")

    def __init__(self, partition: str, request: str) -> None:
        self._partition = ids.fingerprint(partition.encode())
        self._request = request
        self._count = 0

    @property
    def key(self) -> str:
        """See ``Identity.key``."""
        return f"{self._partition}/{self._request}"

    def note_read(self) -> None:
        """See ``Identity.note_read``: it was counted too."""
        self._count += 1

    def derive(self, receiver: str, method: str, args: bytes) -> str:  # noqa: ARG002 - neither was looked at
        """See ``Identity.derive``."""
        self._count += 1
        return f"{self.key}/{self._count}"
