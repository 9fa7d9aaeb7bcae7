"""The line of the calls that wait in one process for permits of a limit."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Generic, TypeVar

from msgspec import Struct

if TYPE_CHECKING:
    from holdfast.flow.borrowing import Moment

P = TypeVar("P")
"""A permit."""


class Waiting(Struct, Generic[P], eq=False):
    """A call that waits for its permit. The lower ticket comes first. ``rouse``: it is not in memory, and is to be
    called when there is a permit for it; so it was at ``roused_at`` (in the loop's time). ``partition`` is then that of
    its entity.
    """

    ticket: int
    weight: int
    granted: asyncio.Future[P] | None = None
    rouse: Callable[[], object] | None = None
    roused_at: float | None = None
    partition: str = ""


def parked_in(line: Iterable[Waiting[P]]) -> list[str]:
    """The entities whose calls wait and are not in memory."""
    return [each.partition for each in line if each.partition]


def fitting(tokens: Iterable[Moment], weight: int) -> Moment | None:
    """The first token that is enough for a call."""
    return next((token for token in tokens if token.weight >= weight), None)


def served(line: Iterable[Waiting[P]], tokens: Sequence[Moment]) -> list[Waiting[P]]:
    """Those of a line that have tokens if each takes the first one that is enough."""
    left, having = list(tokens), list[Waiting[P]]()
    for waiting in line:
        if (token := fitting(left, waiting.weight)) is not None:
            left.remove(token)
            having.append(waiting)
    return having
