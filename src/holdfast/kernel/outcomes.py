"""What comes of a turn: its entity goes on, waits, has ended, is blocked, or goes on in another turn."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from msgspec import UNSET, Struct, UnsetType

from holdfast.items import Write


class Blocked(Exception):
    """There is code for this entity here, but not of the version it is pinned to. ``published`` is the name of a
    version that has it, if one is known; ``run`` is the entity's.
    """

    def __init__(self, reason: str, *, run: int = 0, published: str = "") -> None:
        super().__init__(reason)
        self.run = run
        self.published = published


class LeftBehind(BaseException):
    """The code that this turn ran did not end in its time, and another turn of its entity goes on: this one does
    nothing more.
    """


Post = tuple[str, Callable[[], Sequence[Write]]]
"""A message to another entity: which one, and what makes the writes of it, which are the same each time."""


class Conclusion(Struct, frozen=True, gc=False):
    """How an entity leaves its turn for good: the head as it shall be. With ``due_at`` it goes on as a new run.

    ``posts`` are messages to others. If the end expires, they are written with it: it cannot be found by looking later.
    Else they are written afterwards, if they can be: an entity that waits for one also looks by itself. ``report`` is
    called once it is durable: it tells of what the entity ended with.
    """

    status: str
    body: bytes
    due_at: int | None = None
    expires_at: int | None = None
    posts: Sequence[Post] = ()
    report: Callable[[], None] | None = None


class Again(Struct, frozen=True, gc=False):
    """There may be more to do at once."""


class Idle(Struct, frozen=True, gc=False):
    """There is nothing to do before ``due_at`` (milliseconds). The lease is kept for ``linger_seconds``, or for as long
    as the host has patience, in case something comes. ``busy``: effects or writes are under way, and the entity is not
    released before they end.
    """

    due_at: int | None
    linger_seconds: float | None = None
    busy: bool = False


class Rest(Struct, frozen=True, gc=False):
    """The entity waits, and is released: its head as the release leaves it. ``others`` are writes that go with it."""

    status: str | UnsetType
    due_at: int | UnsetType | None
    expires_at: int | UnsetType | None = UNSET
    body: bytes | UnsetType = UNSET
    others: Sequence[Write] = ()


class Ended(Struct, frozen=True, gc=False):
    """The entity has ended, and is released with its ``conclusion``. ``others`` are writes that go with it."""

    conclusion: Conclusion
    others: Sequence[Write] = ()


AGAIN: Final = Again()
LEAVING: Final = Idle(None, 0.0)

Left = Rest | Ended
"""How an entity is left by a turn."""


class Released(Struct, frozen=True, gc=False):
    """The entity waits, and the last write of the stage has released it already."""

    rest: Rest


Next = Again | Idle | Left | Released
"""What a turn does once it has run what there was."""
