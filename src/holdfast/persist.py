"""Writing until the outcome is known.

A store may not answer although it applied a write. The kernel's writes carry their writer's name and epoch, so a
write sent again and refused by its own earlier self is recognised as done.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Callable, Coroutine
from functools import partial
from typing import Any, Final, TypeVar

from holdfast.backoff import Pauses
from holdfast.errors import Refused, StoreUnavailable
from holdfast.items import ABSENT, Item, Put, RevisionIs, Write
from holdfast.ports import Store

T = TypeVar("T")

CALLER_PATIENCE_SECONDS: Final = 10.0
"""How long a caller's write is tried in an outage before the caller gets an error."""


def write_until_known(
    store: Store, *writes: Write, ours: Callable[[Item | None], bool], patience_seconds: float | None = None
) -> Coroutine[Any, Any, None]:
    """Apply ``writes`` all or nothing, through outages, exactly once as far as can be observed.

    ``ours(item)`` says whether the item in a refused write's place is that very write, applied before. Raises
    ``Refused`` if it is not. Outages are waited out, without end or until the time limit: fencing makes a late write
    harmless.
    """
    return send_until_known(partial(store.write, *writes), ours=ours, patience_seconds=patience_seconds)


async def send_until_known(
    send: Callable[[], Awaitable[object]], *, ours: Callable[[Item | None], bool], patience_seconds: float | None
) -> None:
    """``write_until_known`` for the writes that ``send`` sends."""
    pauses: Pauses | None = None
    give_up_at = math.inf if patience_seconds is None else asyncio.get_running_loop().time() + patience_seconds
    while True:
        try:
            await send()
            return
        except Refused as refused:
            if ours(refused.item):
                return
            raise
        except StoreUnavailable:
            if asyncio.get_running_loop().time() >= give_up_at:
                raise
            pauses = pauses or Pauses()
            await pauses.wait()


def write_for_caller(store: Store, *writes: Write, ours: Callable[[Item | None], bool]) -> Coroutine[Any, Any, None]:
    """``write_until_known`` for a caller that waits: after a while it gets ``StoreUnavailable``."""
    return send_until_known(partial(store.write, *writes), ours=ours, patience_seconds=CALLER_PATIENCE_SECONDS)


async def amend(
    store: Store, partition: str, sort: str, change: Callable[[Item | None], bytes | None], *others: Write
) -> None:
    """Write the body that ``change`` makes of an item, with ``others`` in the same call; ``None`` writes nothing.

    A change by another process in between is kept, and this one made on top of it. Raises ``Refused`` if one of the
    ``others`` is, and ``StoreUnavailable`` as ``write_for_caller``.
    """
    while True:
        there = await store.get(partition, sort)
        if (body := change(there)) is None:
            return
        written = Item(partition, sort, revision=1 if there is None else there.revision + 1, body=body)
        put = Put(written, ABSENT if there is None else RevisionIs(there.revision))
        try:
            await write_for_caller(store, put, *others, ours=partial(_is, written))
        except Refused as refused:
            if refused.index:
                raise
        else:
            return


def _is(written: Item, there: Item | None) -> bool:
    return there is not None and there.revision == written.revision and there.body == written.body


async def sit_out(work: Callable[[], Awaitable[T]], waits: Callable[[StoreUnavailable], object]) -> T:
    """Do ``work``, which may be repeated, until the store answers; report once that this waits."""
    pauses, told = Pauses(), False
    while True:
        try:
            return await work()
        except StoreUnavailable as error:
            if not told:
                waits(error)
            told = True
            await pauses.wait()


async def write_fresh(store: Store, *writes: Write, ours: Callable[[Item | None], bool]) -> None:
    """``write_for_caller`` for writes that were never sent before: if the first attempt is refused, that is final.

    So ``ours`` is called only after an attempt without an answer. It may raise ``StoreUnavailable`` itself, if the item
    does not show whether the write was applied.
    """
    try:
        await store.write(*writes)
    except StoreUnavailable:
        await Pauses().wait()
        await write_for_caller(store, *writes, ours=ours)
