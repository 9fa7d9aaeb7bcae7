"""The tasks of an activity that wait for a worker: an item each, taken by the first conditional write."""

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
from holdfast.persist import write_for_caller

if TYPE_CHECKING:
    from holdfast.ports import Store

PARTITION: Final = "activity#"
SORT: Final = "t#"
WAITS: Final = "WAITS"
TAKEN: Final = "TAKEN"
LOOKED_AT: Final = 20


class Waiting(Struct, frozen=True):
    """A task: the token by which it is answered, and its input as JSON text."""

    token: str
    input: str
    since_ms: int


_encode: Final = msgspec.json.Encoder().encode
_decode: Final = stored(Waiting, "a task of an activity")


async def put(store: Store, activity: str, waiting: Waiting) -> None:
    """Let a task wait for a worker. The same task again changes nothing."""
    sort = f"{SORT}{waiting.since_ms:012x}{ids.fingerprint(waiting.token.encode())}"
    item = Item(partition=PARTITION + activity, sort=sort, status=WAITS, body=_encode(waiting))
    with suppress(Refused):  # it waits already, or was taken
        await write_for_caller(store, Put(item, ABSENT), ours=partial(eq, item))


async def take(store: Store, activity: str) -> Waiting | None:
    """The task that has waited longest, for one worker; ``None`` if none waits.

    It is handed out once. If the worker never hears of it, the Task ends by its own time, as on AWS.
    """
    page = await store.query(PARTITION + activity, prefix=SORT, limit=LOOKED_AT)
    for item in page.items:
        mine = replace(item, status=TAKEN, owner=ids.new_id())
        if item.status == WAITS and await _is_ours(store, mine):
            return _decode(item.body)
    return None


async def _is_ours(store: Store, mine: Item) -> bool:
    try:
        await write_for_caller(store, Put(mine, StatusIn((WAITS,))), ours=partial(eq, mine))
    except Refused:
        return False
    await store.write(Delete(mine.partition, mine.sort))
    return True
