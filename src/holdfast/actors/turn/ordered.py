"""Messages of queues of other services that keep a message until it is done: how an actor knows a repeat (G5).

The queue keeps the order within a group, and numbers its messages. The actor's head keeps, in the commit that applies a
message, the number of the last one of each queue (the mark) and the ids of the latest ones. Older ids are moved into
pages, items of the actor that expire. So a message costs no item of its own, and many of them share one commit.

A message is a repeat if its number is not above its queue's mark, or if its id is known. The queue is told that a
message is done after the commit, and only then.

=============================  ======================================================================================
what happens                   what follows
=============================  ======================================================================================
death before the commit        nothing of the messages is kept; the queue delivers them again, in order
death after the commit,        the queue delivers them again, and the mark drops them
or a lost answer to the queue
a lost answer of the store     the caller is told nothing; the mark tells, when they are delivered again
an owner that is overtaken     its commit is refused by its epoch; what is delivered again goes to the new owner
a batch in two environments    one has the lease; for the other the actor is elsewhere, and its calls are repeats
one of a batch fails           those before it are committed; it and those behind it are delivered again
a gap in the numbers           numbers need not follow each other: only "above the mark" counts
a redriven message             it is sent again, so its number is above the mark; its id may be known
a queue that was deleted and   its numbers may begin again. A message that was sent well after the mark's is new
created again                  whatever its number
=============================  ======================================================================================

"SequenceNumber continues to increase for a particular MessageGroupId"
(https://docs.aws.amazon.com/AWSSimpleQueueService/latest/APIReference/API_SendMessage.html). "All redriven messages are
considered new messages with a new messageID and enqueueTime"
(https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/sqs-configure-dead-letter-queue-redrive.html).
A name of a queue is free 60 seconds after its deletion
(https://docs.aws.amazon.com/AWSSimpleQueueService/latest/APIReference/API_DeleteQueue.html).
"""

from __future__ import annotations

import hashlib
from base64 import urlsafe_b64encode
from collections import deque
from typing import TYPE_CHECKING, Final

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from holdfast.actors.record import ActorRecord, Call, Origin, QueueMark, queue_places
from holdfast.bounded import Bounded
from holdfast.codec.stored import stored
from holdfast.items import Item, Put, Write

if TYPE_CHECKING:
    from holdfast.kernel.runtime import Runtime

SAME_QUEUE_MS: Final = 30_000
"""A message that was sent this long after the mark's, and has a smaller number, is of a new queue of that name:
that takes a minute at least, and clocks of one service differ by less."""

MOST_HANDLED: Final = 64
"""How many ids the head has at most, in about a kilobyte; then the older half becomes a page."""

PAGE_PREFIX: Final = "d#"
MOST_PAGES: Final = 400
"""How many of the latest pages are read: some 12,800 ids, in fifty read units."""

MOST_ACTORS: Final = 200
"""Of how many actors a process keeps the pages in memory."""

_encode: Final = msgspec.json.Encoder().encode
_decode: Final = stored(tuple[str, ...], "a page of the ids of an actor's messages")


def short(id: str) -> str:
    """A digest that stands for an id among those of one actor: 72 bits as 12 characters."""
    return urlsafe_b64encode(hashlib.blake2b(id.encode(), digest_size=9).digest()).decode()


def is_passed(origin: Origin, record: ActorRecord) -> bool:
    """Whether the mark of its queue has passed a message."""
    mark = record.queues.get(origin.queue)
    if mark is None or not origin.sequence:
        return False
    return int(origin.sequence) <= int(mark.sequence) and origin.sent_at < mark.sent_at + SAME_QUEUE_MS


async def is_repeat(call: Call, record: ActorRecord, page: str, partition: str, runtime: Runtime) -> bool:
    """Whether a message of a queue was applied or parked before. ``page`` is the last one that is durable: the ids of a
    later one are those of calls that are not committed, and are known by them.
    """
    assert call.origin is not None
    if is_passed(call.origin, record):
        return True
    known = {short(id) for id in (call.origin.id, *call.origin.aliases)}
    if not known.isdisjoint(record.handled):
        return True
    pages = await _pages(page, partition, runtime) if page else ()
    return not all(known.isdisjoint(each) for each in pages)


def noted(record: ActorRecord, call: Call, partition: str, until: int) -> tuple[ActorRecord, tuple[Write, ...]]:
    """The record when a message was applied or parked, and what is to be written with it.

    ``until`` (milliseconds) is how long its id is known at least. Failures that its queue had before are over.
    """
    origin = call.origin
    if origin is None:
        return record, ()
    queues = record.queues
    if origin.sequence and not is_passed(origin, record):
        queues = queues | {origin.queue: QueueMark(origin.sequence, origin.sent_at)}
    over = queue_places(origin)
    failures = {place: each for place, each in record.failures.items() if not place.startswith(over)}
    handled = (*record.handled, *map(short, dict.fromkeys((origin.id, *origin.aliases))))
    if len(handled) <= MOST_HANDLED:
        return replace(record, queues=queues, failures=failures, handled=handled), ()
    half = MOST_HANDLED // 2
    number = f"{int(record.page or 0) + 1:010d}"
    page = Item(partition, PAGE_PREFIX + number, body=_encode(handled[:half]), expires_at=until)
    return replace(record, queues=queues, failures=failures, handled=handled[half:], page=number), (Put(page),)


# ── Pages ───────────────────────────────────────────────────────────────────────────────────────────────────────────


class Pages(Struct):
    """The latest pages of an actor, up to the one that was read last."""

    last: str = ""
    ids: deque[frozenset[str]] = msgspec.field(default_factory=lambda: deque(maxlen=MOST_PAGES))


class KnownPages:
    """The pages that this process has read. They never change, so what is there is true; there may be later ones."""

    __slots__ = ("of",)

    def __init__(self) -> None:
        self.of = Bounded[str, Pages](MOST_ACTORS)


async def _pages(newest: str, partition: str, runtime: Runtime) -> deque[frozenset[str]]:
    known = runtime.kept.get(KnownPages, KnownPages).of
    pages = known.get(partition) or Pages()
    first = f"{max(0, int(newest) - MOST_PAGES):010d}"
    while pages.last < newest:
        after = PAGE_PREFIX + max(pages.last, first)
        page = await runtime.home.store.query(partition, prefix=PAGE_PREFIX, after=after)
        for each in page.items:
            pages.ids.append(frozenset(_decode(each.body)))
            pages.last = each.sort.removeprefix(PAGE_PREFIX)
        if page.cursor is None:
            break
    known[partition] = pages
    return pages.ids
