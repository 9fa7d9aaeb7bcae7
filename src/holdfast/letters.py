"""Dead letters of queues outside of the home: messages that were delivered as often as their queue allows."""

from __future__ import annotations

from typing import Final, Protocol

from msgspec import Struct

ORIGINAL_ID: Final = "holdfast-id"
"""The attribute of a message that is the copy of a dead letter: the id by which the original was known."""


class DeadLetter(Struct, frozen=True, kw_only=True):
    """A dead letter. ``id`` names it in its home; ``queue`` is the queue that it was sent to.

    ``is_ordered``: it is a call of an actor, whose key is ``group``. ``sent_at`` is in milliseconds.
    """

    id: str
    queue: str
    is_ordered: bool
    group: str
    body: str
    sent_at: int


class Looked(Struct, frozen=True):
    """Some dead letters, and what a person has to know of those that are not among them."""

    letters: tuple[DeadLetter, ...]
    notes: tuple[str, ...] = ()


class DeadLetters(Protocol):
    """An optional port of homes whose functions are handed messages by queues.

    All but ``look`` raise ``StoreUnavailable`` if the queue cannot be reached, and return ``None`` if it has no such
    letter.
    """

    def names(self, id: str, /) -> bool:
        """Whether this is the id of a dead letter, there or not."""
        ...

    async def look(self, limit: int, /) -> Looked:
        """Some dead letters, the oldest first as far as the queues tell. A queue that cannot be read is noted."""
        ...

    async def find(self, id: str, /) -> DeadLetter | None:
        """One of them."""
        ...

    async def send_back(self, id: str, body: str | None, /) -> DeadLetter | None:
        """Send it to its queue again, with another body if one is given, and delete it.

        It keeps its group, its attributes and what repeats are recognised by. A process that dies between the two
        leaves the letter, and its copy is recognised.
        """
        ...

    async def drop(self, id: str, /) -> DeadLetter | None:
        """Delete it, for good."""
        ...
