"""Ending what waits in a queue, by order: the worker that decides does it, some at a time, before it chooses.

An order is a setting of the queue, so it is durable once it is given, and the next owner goes on with it. What it
covers is not chosen any more. Each execution is ended by a write of its own, which is refused if it has begun, or waits
again since the order. An order is done when all places were read after it was seen, and none is left that it covers. It
is kept for a while after that, for places that come late.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Final

from holdfast.flow.changing import in_force, note_done
from holdfast.flow.record import QUEUED, since_of

if TYPE_CHECKING:
    from holdfast.flow.choose import Waiting
    from holdfast.flow.ends import Ends
    from holdfast.flow.gate import Books, Gate
    from holdfast.flow.settings import Purge
    from holdfast.kernel.host import Host

MOST_PURGED: Final = 200
"""The most executions that one round ends."""


def take_in(books: Books, purges: Sequence[Purge], now: int) -> None:
    """Orders were read. What they cover is not chosen any more, and all places are read for new ones."""
    holding = in_force(purges, now)
    if holding == books.purges:
        return
    books.purges, books.purges_read_at, books.lookup = holding, None, True
    for waiting in books.chooser.take_out(partial(_is_covered, books)):
        books.purging[waiting.sort] = waiting


def line_up(books: Books, waiting: Waiting) -> None:
    """A place was found: it is one to choose from, unless an order covers it."""
    if books.purges and _is_covered(books, waiting):
        books.purging[waiting.sort] = waiting
    else:
        books.chooser.add(waiting)


def is_under_way(books: Books) -> bool:
    """Whether an order is not done yet."""
    return any(not each.done for each in books.purges)


async def purge_some(gate: Gate, ends: Ends, host: Host) -> list[Waiting]:
    """End some of what the orders cover, and answer whose places are of no use any more."""
    books = gate.open_books
    some = list(islice(books.purging.values(), MOST_PURGED))
    ended = await asyncio.gather(*(_end(each, books, ends, gate, host) for each in some))
    for waiting, is_ended in zip(some, ended, strict=True):
        del books.purging[waiting.sort]
        if is_ended is None:
            books.put_aside(waiting, host.clock.now_ms())
        elif not is_ended:
            books.spared.add(waiting.sort)
            books.chooser.add(waiting)
    if is_under_way(books) and not books.purging and books.purges_read_at is not None:
        await note_done(gate.partition, books.purges, host)
        books.purges = tuple(each.carried_out() for each in books.purges)
    return [waiting for waiting, is_ended in zip(some, ended, strict=True) if is_ended]


def _is_covered(books: Books, waiting: Waiting) -> bool:
    since = since_of(waiting.sort)
    return waiting.sort not in books.spared and any(
        each.covers(waiting.key, since, waiting.sort) for each in books.purges
    )


async def _end(waiting: Waiting, books: Books, ends: Ends, gate: Gate, host: Host) -> bool | None:
    """Whether the execution waits no more; ``None`` if it is to come. Its head says what there is to end."""
    head = await host.home.store.get(waiting.partition)
    if head is None and host.home.writes_are_paid:
        return None
    slot = books.held.get(waiting.partition)
    if head is None or head.status != QUEUED or (slot is not None and slot.epoch == head.epoch):
        return True
    since = since_of(waiting.sort)
    until = max(each.until for each in books.purges if each.covers(waiting.key, since, waiting.sort))
    return await ends.purge(head, max(until, since), gate.partition, host)
