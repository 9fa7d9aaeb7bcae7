"""Messages that no caller awaits: how an actor knows those that it has applied, without an item for each (G5).

A sender that had no answer sends a message again, for some seconds. Where each write is billed, an item that says that
it was applied would cost as much as the message itself. So the head has the ids of the latest ones (``recent``). When
they are many, and durable, they move together into one item, a page: ``e#<the greatest of them>#<their digest>``. When
the head is full before, a commit writes a page with what it applies.

An id begins with the time at which it was made, so only the pages from a message's own id on may have it, and none if
it is greater than all of them (``paged_up_to``).

| it stops | what is there | a repeat |
|---|---|---|
| before the commit | nothing of the messages | is applied |
| after the commit | the state, and the ids in the head or, by the same write, in a page | is found |
| between the page of those that move and the next commit | they are in both places | is found; they move again |
| an hour, and then it writes a page of those that move | one more page, which replaces no other | is found |
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Final

import msgspec
from msgspec.structs import replace

from holdfast.actors.record import ActorRecord, Call
from holdfast.codec.stored import stored
from holdfast.ids import fingerprint
from holdfast.items import Item, Put
from holdfast.paging import items

if TYPE_CHECKING:
    from holdfast.actors.turn.performed import Finished
    from holdfast.ports import Home, Store

RESEND_WINDOW_MS: Final = 600_000
"""How long a message is recognised that its sender's process sends again because the store gave no answer: it does
so for some seconds only."""

MOST_RECENT: Final = 25
"""How many messages the head has; more of them in so short a time are in pages."""

PAGE_PREFIX: Final = "e#"

_encode: Final = msgspec.json.Encoder().encode
_decode: Final = stored(tuple[str, ...], "a page of the ids of messages that were applied")


def is_only_noted(call: Call, home: Home) -> bool:
    """Whether all there is to keep of a message is that it was applied."""
    return home.writes_are_paid and call.known and not (call.named or call.replies)


def with_applied(record: ActorRecord, id: str, now: int) -> ActorRecord:
    """The record when a message was applied that is only noted: in ``recent``, or else in the page of its commit."""
    recent = {each: until for each, until in record.recent.items() if until > now}
    if len(recent) < MOST_RECENT:
        return replace(record, recent=recent | {id: now + RESEND_WINDOW_MS})
    return replace(record, paged_up_to=max(record.paged_up_to, id))


def paged(record: ActorRecord, partition: str, now: int) -> tuple[ActorRecord, Put | None]:
    """The record without what it knows of messages, and the page for that, if the head is full. What the record says
    must be durable.
    """
    ids = sorted(id for id, until in record.recent.items() if until > now)
    if len(ids) < MOST_RECENT:
        return record, None
    return replace(record, recent={}, paged_up_to=max(record.paged_up_to, ids[-1])), _page(ids, partition, now)


def page_of(finished: Iterable[Finished], partition: str, now: int) -> tuple[Put, ...]:
    """The page for the messages of one commit that have no room in the head, if there are any."""
    ids = sorted(each.paged for each in finished if each.paged)
    return (_page(ids, partition, now),) if ids else ()


def _page(ids: Sequence[str], partition: str, now: int) -> Put:
    until, body = now + RESEND_WINDOW_MS, _encode(ids)
    return Put(Item(partition, f"{PAGE_PREFIX}{ids[-1]}#{fingerprint(body)}", body=body, expires_at=until))


async def is_noted(id: str, record: ActorRecord, partition: str, store: Store) -> bool:
    """Whether a message that is only noted was applied."""
    return id in record.recent or bool(await on_pages((id,), record, partition, store))


async def on_pages(ids: Iterable[str], record: ActorRecord, partition: str, store: Store) -> frozenset[str]:
    """Those of the ids that are on pages."""
    asked = frozenset(id for id in ids if id <= record.paged_up_to)
    if not asked:
        return asked
    behind = PAGE_PREFIX + min(asked)[:-1]  # the page may be that of the message itself
    found: set[str] = set()
    async for page in items(store, partition, prefix=PAGE_PREFIX, after=behind):
        found.update(_decode(page.body))
    return asked & found
