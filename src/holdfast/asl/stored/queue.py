"""The tasks of an activity that wait for a worker: each is taken by the first conditional write, once."""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from operator import eq
from typing import TYPE_CHECKING, Final

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from holdfast import ids
from holdfast.codec.stored import stored
from holdfast.errors import Refused
from holdfast.items import ABSENT, Delete, Item, Put, StatusIn
from holdfast.paging import items
from holdfast.persist import write_for_caller

if TYPE_CHECKING:
    from holdfast.ports import Store

PARTITION: Final = "activity#"
SORT: Final = "t#"
WAITS: Final = "WAITS"
TAKEN: Final = "TAKEN"
MARKS: Final = "m#"
LOOKED_AT: Final = 20

REMEMBERED_MS: Final = 7 * 24 * 3_600_000
"""How long it is known that a task was taken. A process that has put it there and died before it could record that puts
it there again when the execution goes on: it must not go to a second worker then."""


class Waiting(Struct, frozen=True):
    """A task: the token by which it is answered, and its input as JSON text."""

    token: str
    input: str
    since_ms: int


_encode: Final = msgspec.json.Encoder().encode
_decode: Final = stored(Waiting, "a task of an activity")


async def put(store: Store, activity: str, waiting: Waiting) -> None:
    """Let a task wait for a worker. The same task again changes nothing, also after a worker has taken it."""
    place, mark = _place(activity, waiting), _mark(activity, waiting)
    item = Item(partition=place.partition, sort=place.sort, body=_encode(waiting))
    with suppress(Refused):  # it waits already, or was taken
        await write_for_caller(store, Put(mark, ABSENT), Put(item, ABSENT), ours=partial(eq, mark))


async def take(store: Store, activity: str, now_ms: int) -> Waiting | None:
    """The task that has waited longest, for one worker; ``None`` if none waits.

    It is handed out once. If the worker never hears of it, the Task ends by its own time, as on AWS.
    """
    async for item in items(store, PARTITION + activity, prefix=SORT, limit=LOOKED_AT):
        waiting = _decode(item.body)
        if await _is_ours(store, activity, waiting, now_ms):
            return waiting
    return None


async def _is_ours(store: Store, activity: str, waiting: Waiting, now_ms: int) -> bool:
    """Take a task with one write: a crash leaves it where it was, or leaves nothing in the way of others."""
    waits = _mark(activity, waiting)
    mine = replace(waits, status=TAKEN, owner=ids.new_id(), expires_at=now_ms + REMEMBERED_MS)
    try:
        await write_for_caller(store, Put(mine, StatusIn((WAITS,))), _place(activity, waiting), ours=partial(eq, mine))
    except Refused:
        return False
    return True


def _mark(activity: str, waiting: Waiting) -> Item:
    """What says whether a task waits or was taken. It outlives the task, so that the task is not put there again."""
    return Item(partition=PARTITION + activity, sort=MARKS + ids.fingerprint(waiting.token.encode()), status=WAITS)


def _place(activity: str, waiting: Waiting) -> Delete:
    """Where a task waits, in the order of time; to be deleted when it is taken."""
    sort = f"{SORT}{waiting.since_ms:012x}{ids.fingerprint(waiting.token.encode())}"
    return Delete(PARTITION + activity, sort)
