"""What a whole home holds of actors: the actors themselves, the parked messages, the timers."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import datetime
from heapq import nsmallest
from typing import TYPE_CHECKING

from msgspec import Struct

from holdfast.actors.admin.handle import ActorStatus, Message, parked_message, status_of, timers_of
from holdfast.actors.mailbox.parked import REGISTER, noted
from holdfast.actors.record import (
    DELETED,
    HIDDEN_MARK,
    PARTITION_PREFIX,
    actor_of,
    key_of,
    partition_of,
)
from holdfast.coordination.schedule import Schedule
from holdfast.errors import InvalidInput, NotFound
from holdfast.keys import LARGEST_PAGE, check_limit
from holdfast.paging import Pages, refuse_scan

if TYPE_CHECKING:
    from holdfast.items import Item
    from holdfast.kernel.runtime import Runtime


class ActorPage(Struct, frozen=True):
    """Some actors, and where to go on: pass ``after``; ``None`` means that was the end."""

    items: tuple[ActorStatus, ...]
    after: str | None


class ParkedMessage(Struct, frozen=True):
    """A parked message, and whose it was. ``id`` names it in its home."""

    id: str
    actor: str
    key: str
    message: Message


class ParkedPage(Struct, frozen=True):
    """Some parked messages, and where to go on: pass ``after``; ``None`` means that was the end. ``notes`` tell what is
    not among them.
    """

    items: tuple[ParkedMessage, ...]
    after: str | None
    notes: tuple[str, ...] = ()


class SetTimer(Struct, frozen=True):
    """A timer that is set, and whose it is."""

    actor: str
    key: str
    name: str
    due_at: datetime
    schedule: Schedule | None


async def list_actors(
    runtime: Runtime,
    actor: str | None,
    *,
    status: str | None = None,
    beginning: str = "",
    after: str | None,
    limit: int,
    scan: bool = False,
) -> ActorPage:
    """One page of actors, newest first, whose keys begin so; deleted ones only if their status is asked for. Raises
    ``InvalidInput`` if the whole table would be read, without ``scan``.
    """
    check_limit(limit)
    await refuse_scan(runtime.home, scan=scan)
    found: list[ActorStatus] = []
    while True:
        page = await runtime.home.store.scan(_prefix(actor), status=status, after=after, limit=limit - len(found))
        await asyncio.sleep(0)  # a store that is a file answers at once, and others wait for the loop
        shown = (head for head in page.items if status is not None or head.status != DELETED)
        asked_for = (each for each in shown if _is_asked_for(each.partition, actor))
        found += [status_of(head) for head in asked_for if key_of(head.partition).startswith(beginning)]
        after = page.cursor
        if after is None or len(found) >= limit:
            return ActorPage(tuple(found), after)


async def list_parked(
    runtime: Runtime, actor: str | None, *, beginning: str = "", after: str | None, limit: int
) -> ParkedPage:
    """One page of the parked messages, those of hidden actors too, in the order they were sent; of actors whose keys
    begin so.
    """
    check_limit(limit)
    found: list[ParkedMessage] = []
    while True:
        page = await runtime.home.store.query(REGISTER, after=after, limit=limit - len(found))
        shown = [_parked(note, item) async for note, item in noted(runtime.home.store, page.items)]
        found += [each for each in shown if actor in (None, each.actor) and each.key.startswith(beginning)]
        after = page.cursor
        if after is None or len(found) >= limit:
            return ParkedPage(tuple(found), after)


async def find_parked(runtime: Runtime, id: str) -> ParkedMessage:
    """One parked message, by its id in the home. Raises ``NotFound``, and ``InvalidInput`` for an empty id."""
    if not id:
        raise InvalidInput("the id of the message is empty; name one that dlq ls shows")
    note = await runtime.home.store.get(REGISTER, id)
    async for _, item in noted(runtime.home.store, () if note is None else (note,)):
        return ParkedMessage(id, actor_of(item.partition), key_of(item.partition), parked_message(item))
    raise NotFound(f"no message {id!r} is parked here")


async def list_timers(runtime: Runtime, actor: str | None, *, limit: int, scan: bool = False) -> tuple[SetTimer, ...]:
    """The timers of all actors, or of those of one class, that are due first. Reads every actor; ``scan`` as for
    ``list_actors``.
    """
    check_limit(limit)
    await refuse_scan(runtime.home, scan=scan)
    found = [
        SetTimer(actor_of(head.partition), key_of(head.partition), each.name, each.due_at, each.schedule)
        async for head in _heads(runtime, actor)
        for each in timers_of(head)
    ]
    return tuple(nsmallest(limit, found, key=lambda each: (each.due_at, each.actor, each.key, each.name)))


async def _heads(runtime: Runtime, actor: str | None) -> AsyncIterator[Item]:
    store = runtime.home.store
    async for page in Pages(lambda after: store.scan(_prefix(actor), after=after, limit=LARGEST_PAGE)):
        await asyncio.sleep(0)  # a store that is a file answers at once, and others wait for the loop
        for head in page.items:
            yield head


def _prefix(actor: str | None) -> str:
    return PARTITION_PREFIX if actor is None else partition_of(actor, "")


def _is_asked_for(partition: str, actor: str | None) -> bool:
    return actor is not None or not actor_of(partition).startswith(HIDDEN_MARK)


def _parked(note: Item, item: Item) -> ParkedMessage:
    return ParkedMessage(note.sort, actor_of(item.partition), key_of(item.partition), parked_message(item))
