"""Sending to an execution: a message in its inbox and a ring, in one write."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast import ids
from holdfast.coordination.inbox import Sender
from holdfast.errors import NotFound, Refused
from holdfast.kernel.entries import Cancelled, Received
from holdfast.kernel.host import nudge
from holdfast.persist import write_for_caller
from holdfast.workflows.history import load
from holdfast.workflows.record import CancelRequest, Message, Signal, post

if TYPE_CHECKING:
    from holdfast.kernel.host import Host
    from holdfast.ports import Home, Store


async def send(partition: str, message: Message, home: Home, host: Host | None, sender: Sender, now: int) -> bool:
    """Put a message into an open execution's inbox, durably; false if the execution is not there or has ended."""
    sort = sender.next_sort()
    writes = post(partition, sort, message, now)
    try:
        await write_for_caller(
            home.store,
            *writes,
            ours=lambda there: there is not None and there.sort == sort,
        )
    except Refused:
        return False
    nudge(partition, home, host)
    return True


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
