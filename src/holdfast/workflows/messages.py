"""Sending to an execution: a message in its inbox and a ring, in one write."""

from __future__ import annotations

from itertools import cycle
from typing import TYPE_CHECKING

from msgspec.structs import replace

from holdfast import ids
from holdfast.coordination.inbox import Sender
from holdfast.errors import NotFound, Refused
from holdfast.items import StatusIn, Update
from holdfast.kernel.entries import Cancelled, Received
from holdfast.kernel.host import nudge
from holdfast.persist import write_for_caller
from holdfast.workflows.history import load
from holdfast.workflows.record import CLAIMABLE, OPEN, PAUSED, READY, CancelRequest, Message, Signal, post

if TYPE_CHECKING:
    from holdfast.kernel.host import Host
    from holdfast.ports import Home, Store


async def send(partition: str, message: Message, home: Home, host: Host | None, sender: Sender, now: int) -> bool:
    """Put a message into an open execution's inbox, durably; false if the execution is not there or has ended.

    A paused one that is asked to stop goes on, to clean up.
    """
    sort = sender.next_sort()
    put, ring = post(partition, sort, message, now)
    ways = (ring,) if not isinstance(message, CancelRequest) else (_to_claimable(ring), _to_paused(ring))
    for way in cycle(ways):
        try:
            await write_for_caller(home.store, put, way, ours=lambda there: there is not None and there.sort == sort)
        except Refused as refused:
            if len(ways) == 1 or refused.item is None or refused.item.status not in OPEN:
                return False
            continue
        nudge(partition, home, host)
        break
    return True


def _to_claimable(ring: Update) -> Update:
    return replace(ring, when=StatusIn(CLAIMABLE))


def _to_paused(ring: Update) -> Update:
    return replace(ring, when=StatusIn((PAUSED,)), status=READY)


async def was_received(store: Store, partition: str, message: Signal | CancelRequest) -> bool:
    """Whether an execution that takes no messages any more has had this one: whoever repeats himself after a crash has
    reached it all the same.
    """
    try:
        recorded = await load(store, partition)
    except NotFound:
        return False
    match message:
        case CancelRequest():
            return any(isinstance(entry, Cancelled) and not entry.timed_out for entry in recorded.entries)
        case Signal(id=id):
            ids_here = (entry.id for entry in recorded.entries if isinstance(entry, Received))
            return id in recorded.record.seen or id in ids_here


def signal_id(given: str | None) -> str:
    """The id by which repeats of a signal are recognised."""
    return given if given is not None else ids.new_id()


__all__ = ["Signal", "send", "signal_id"]
