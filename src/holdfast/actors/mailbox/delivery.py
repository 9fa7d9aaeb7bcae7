"""Delivery: messages and events are put into their receiver, which is made due by the same write (G1, G6).

A process that delivers may have done so before without an answer, or takes over from one that died. A message that is
still there is refused by its place. So no delivery takes back what it has put: another may count on it. One that was
applied and removed since is recognised by the receiver.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from holdfast.actors.mailbox.post import make_due, wake_actor
from holdfast.actors.record import PARTITION_PREFIX, SUSPENDED
from holdfast.errors import Refused, StoreUnavailable
from holdfast.items import ABSENT, EXISTS, Item, Put, Update, Write, parts_of
from holdfast.persist import write_until_known

if TYPE_CHECKING:
    from holdfast.kernel.runtime import Runtime

MOST_TRIES: Final = 10


async def deliver(
    partition: str, puts: Sequence[Put], head: Item | None, runtime: Runtime, *, whole: bool = False
) -> None:
    """Put items into one receiver, in their order, and wake it. ``head`` is the receiver's as far as is known.

    They come as a ``whole`` with the wake-up if the receiver recognises one of them for a limited time only: what a
    process delivers late that is no owner any more must not wait without a wake-up until that time is over (G5).
    An outage is waited out. Raises ``StoreUnavailable`` if the receiver keeps changing.
    """
    for part in parts_of(puts, runtime.home.bounds):
        await _deliver_together(partition, list(part), head, runtime, whole=whole)
    wake_actor(partition, runtime)


async def _deliver_together(
    partition: str, puts: list[Write], head: Item | None, runtime: Runtime, *, whole: bool
) -> None:
    for _ in range(MOST_TRIES + len(puts)):
        due = _due(partition, head, runtime, whole=whole)
        try:
            await write_until_known(runtime.home.store, *puts, due, ours=lambda _there: False)
        except Refused as refused:
            if refused.index == len(puts):
                head = refused.item
                continue
            del puts[refused.index]  # it was delivered before, is still there, and has perhaps woken no owner
            continue
        return
    raise StoreUnavailable(f"{partition} kept changing: nothing was delivered to it; it is tried again")


def _due(partition: str, head: Item | None, runtime: Runtime, *, whole: bool) -> Write:
    """The write that makes the receiver look: an actor, or an outbox of events."""
    if partition.startswith(PARTITION_PREFIX):
        due = make_due(partition, head, runtime, whole=whole)
        return replace(due, lasting=True) if isinstance(due, Update) and due.wakes else due
    now = runtime.clock.now_ms()
    if head is None:
        return Put(Item(partition, status=SUSPENDED, revision=1, due_at=now), ABSENT)
    return Update(partition=partition, when=EXISTS, due_at=now, add_revision=1, wakes=True, whole=whole, lasting=True)
