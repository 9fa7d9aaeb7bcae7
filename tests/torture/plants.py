"""Planted bugs, to check the checker: a torture test that cannot go red proves nothing.

Each sits between the engine and the store of one torture process, which is asked for it by an environment variable.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final

from msgspec.structs import replace

from holdfast.items import ALWAYS, AllOf, Condition, Item, Put, RevisionIs, Update, Write
from holdfast.ports import Store
from holdfast.replay.journal import SEGMENT_PREFIX

PLANT: Final = "HOLDFAST_TORTURE_PLANT"
"""The environment variable that names the planted bug."""

EARLY_SECONDS: Final = 0.03
DEAF_SECONDS: Final = 0.05

Apply = Callable[..., Awaitable[Sequence[Item | None]]]


def planted_write(store: Store) -> Apply:
    """The store's ``write``, with the bug that the environment asks for."""
    name = os.environ.get(PLANT, "")
    return PLANTS[name](store) if name else store.write


def unfenced(store: Store) -> Apply:
    """Segments overwrite whatever is in their place, and claims get no epoch of their own."""

    def weakened(write: Write) -> Write:
        match write:
            case Put(item=item) if item.sort.startswith(SEGMENT_PREFIX):
                return Put(item, ALWAYS)
            case Update(add_epoch=1):
                return replace(write, add_epoch=0)
            case _:
                return write

    return lambda *writes: store.write(*map(weakened, writes))


def ack_early(store: Store) -> Apply:
    """Segments are acknowledged a moment before they are written, so effects start before their commit."""

    def write(*writes: Write) -> Awaitable[Sequence[Item | None]]:
        if not any(isinstance(each, Put) and each.item.sort.startswith(SEGMENT_PREFIX) for each in writes):
            return store.write(*writes)
        loop = asyncio.get_running_loop()
        loop.call_later(EARLY_SECONDS, lambda: asyncio.ensure_future(store.write(*writes)).add_done_callback(_ignore))
        early: asyncio.Future[Sequence[Item | None]] = loop.create_future()
        early.set_result([None] * len(writes))
        return early

    return write


def deaf(store: Store) -> Apply:
    """Entities are released a moment after the decision, and whoever has rung meanwhile: not if the revision is as it
    was.
    """

    async def release(write: Update, conditions: Sequence[Condition], others: Sequence[Write]) -> Sequence[Item | None]:
        kept = tuple(each for each in conditions if not isinstance(each, RevisionIs))
        await asyncio.sleep(DEAF_SECONDS)
        return await store.write(replace(write, when=AllOf(kept)), *others)

    def write(*writes: Write) -> Awaitable[Sequence[Item | None]]:
        match writes:
            case (Update(owner=None, when=AllOf(conditions)) as first, *others):
                return release(first, conditions, others)
            case _:
                return store.write(*writes)

    return write


def _ignore(written: asyncio.Future[Any]) -> None:
    written.exception()


PLANTS: Final[dict[str, Callable[[Store], Apply]]] = {"unfenced": unfenced, "ack-early": ack_early, "deaf": deaf}
