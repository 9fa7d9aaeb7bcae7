"""Places that come before their executions: where writes are paid, a start writes the place first.

So nothing has to be due for an execution that waits: its queue is, as long as it knows of a place. The head follows in
a moment, or never, if the process of the start has died in between. These are the writes of such a start:

| it stops | what is there | what continues it |
|---|---|---|
| before the place, or at it | nothing, or a place without a head | no caller was told of a start |
| after the place, before the queue is due | the same | the same, once the queue is looked at for another reason |
| after that, before the head | a place, and a queue that looks at it | the head is given up, and the place deleted |
| at the head, and the answer is lost | perhaps the head too | it is sent again, or found by its id |
| an hour, and then it writes the head | a head that was given up | it begins again, and is due until it is seen |

Most are found when they are chosen. Where nothing can be chosen, or much is in front, a place that is a minute old is
looked at once, so that it does not count for what waits. So is one that an execution has left behind which waits no
more, if the process that ended it has died before it deleted the place.

A place is deleted only once no head can come for it any more: one that was given up takes the place of the head, which
is only written where nothing is.
"""

from __future__ import annotations

from heapq import nsmallest
from operator import attrgetter
from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from holdfast.flow.purging import line_up
from holdfast.flow.record import QUEUED, UNSEEN_MS, heads_of, queueing_in, since_of

if TYPE_CHECKING:
    from holdfast.flow.choose import Waiting
    from holdfast.flow.ends import Ends
    from holdfast.flow.gate import Books, Gate
    from holdfast.items import Item
    from holdfast.kernel.host import Host

LOOK_AGAIN_MS: Final = 1_000
"""So often the executions of early places are looked for, unless this process hears of them."""

MOST_SEEN: Final = 400
"""The most old places that are looked at between two readings of all places."""


def note_old(books: Books, waiting: Waiting, now: int) -> None:
    """A place was read. Whether its execution has come is to be seen if it is old, and was not seen before."""
    if waiting.sort not in books.seen and now >= since_of(waiting.sort) + UNSEEN_MS:
        books.unseen.append(waiting)


async def look_at_old(gate: Gate, host: Host) -> list[Waiting]:
    """Look whether the executions of old places have come, the oldest first, and answer the places of those that wait
    no more. Each is looked at once by an owner of the queue: it is a read, which is paid.
    """
    books = gate.open_books
    some, books.unseen = nsmallest(MOST_SEEN, books.unseen, key=attrgetter("sort")), []
    heads = await heads_of([each.partition for each in some], host.home)
    gone: list[Waiting] = []
    for waiting, head in zip(some, heads, strict=True):
        if as_the_head_says(waiting, head, gate, host) is not None:
            books.seen.add(waiting.sort)
        elif books.chooser.knows(waiting):
            books.chooser.leave(waiting.sort)
            if head is None:
                books.put_aside(waiting, host.clock.now_ms())
            else:
                gone.append(waiting)
    return gone


def as_the_head_says(waiting: Waiting, head: Item | None, gate: Gate, host: Host) -> Waiting | None:
    """What waits here according to its head; ``None`` if it does not. A place that is written before its head may be
    that of a start which was not the first under its id: the head is right.
    """
    if head is None or head.status != QUEUED:
        return None
    if not host.home.writes_are_paid:
        return waiting
    waits = queueing_in(head)
    if waits is None or waits.gate != gate.partition:
        return None
    return waiting if waits.key == waiting.key else replace(waiting, key=waits.key)


async def look_for_early(gate: Gate, ends: Ends, host: Host) -> list[Waiting]:
    """Line those up that have come. Answers the places of those that never will."""
    books, now = gate.open_books, host.clock.now_ms()
    if not books.early or now < books.early_at + LOOK_AGAIN_MS:
        return []
    books.early_at = now
    some = list(books.early.values())
    heads = await heads_of([each.partition for each in some], host.home)
    gone: list[Waiting] = []
    for waiting, head in zip(some, heads, strict=True):
        if head is not None:
            del books.early[waiting.sort]
            line_up(books, waiting)
        elif now >= since_of(waiting.sort) + UNSEEN_MS and await ends.give_up(waiting.partition, host):
            del books.early[waiting.sort]
            gone.append(waiting)
    return gone


def next_look_at(gate: Gate) -> int | None:
    """When early places are looked for next (milliseconds)."""
    return gate.open_books.early_at + LOOK_AGAIN_MS if gate.open_books.early else None
