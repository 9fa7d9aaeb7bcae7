"""Replies that are kept until the caller has been committed: until then it may run again, and so call again.

A message that fails is tried again, or set aside and delivered again, however late. What it has called must know it
then, so those replies have no end. They get one with the commit in which the message ends well.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from holdfast.errors import Refused
from holdfast.items import EXISTS, Update, Write, parts_of
from holdfast.persist import write_for_caller

if TYPE_CHECKING:
    from collections.abc import Sequence

    from holdfast.ports import Home, Store

Place = tuple[str, str]
"""The partition and sort key of a reply."""


def let_go(called: Iterable[Place], until: int, home: Home) -> Sequence[Sequence[Write]]:
    """The writes that give replies an end (milliseconds), in parts that can be one write each."""
    updates = [_let_go(place, until) for place in called]
    return parts_of(updates, home.bounds)


async def let_go_now(called: Iterable[Place], until: int, store: Store) -> None:
    """Give replies an end, because what has called is gone for good."""
    for place in called:
        try:
            await write_for_caller(store, _let_go(place, until), ours=lambda _there: True)
        except Refused:
            continue  # it is not there any more


def _let_go(place: Place, until: int) -> Update:
    partition, sort = place
    return Update(partition=partition, sort=sort, when=EXISTS, expires_at=until)
