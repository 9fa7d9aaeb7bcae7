"""The end of a callback's time: from then on it takes no answer, and one that was accepted before comes first (G1).

That is decided when the timer is due, before the body learns of it. A body that begins to wait again when the time is
over already has no timer, as its journal may have been written: then the callback is closed whatever has come.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from holdfast.coordination.inbox import CLOSED, USED
from holdfast.items import ABSENT, AnyOf, Item, Put, StatusIn
from holdfast.workflows.record import answered_sort, callback_sort

if TYPE_CHECKING:
    from holdfast.ports import Store

UNANSWERED: Final = AnyOf((ABSENT, StatusIn((CLOSED,))))
"""No answer was accepted: nothing is in the place of the mark, or a callback was closed, and an execution retried."""


def close_callback(partition: str, run: int, op: str) -> Put:
    """The write that closes a callback: the answers that come later find a mark, and are refused."""
    return Put(Item(partition=partition, sort=answered_sort(run, op), status=CLOSED))


async def is_answered(store: Store, partition: str, run: int, op: str, mark: Item | None) -> bool:
    """Whether an accepted answer is in the inbox, given the ``mark`` by which a callback could not be closed.

    A mark without a body is of an earlier release, which closed callbacks by it. An answer that was taken out of the
    inbox and is awaited all the same was dropped from the journal by a retry of an earlier release: it does not come
    again.
    """
    if mark is not None and not mark.body:
        return False
    answer = await store.get(partition, callback_sort(run, op))
    return answer is not None and answer.status != USED
