"""What the owner of a key does: renew its lease, and end its attempt, once."""

from __future__ import annotations

from msgspec import Raw
from msgspec.structs import replace

from holdfast.coordination.idempotency.record import (
    COMPLETED,
    FAILED,
    FREE,
    NO_RESULT,
    RUNNING,
    Ended,
    Record,
    Ticket,
    changed,
)
from holdfast.errors import LeaseLost, Refused, StoreUnavailable
from holdfast.failure import ErrorRecord
from holdfast.items import AllOf, Item, LeaseLapsed, OwnerIs, StatusIn, Update
from holdfast.opened import Opened
from holdfast.persist import write_for_caller


async def renew(opened: Opened, ticket: Ticket, lease_ms: int) -> bool:
    """Renew the lease; false if another owner has the key. An outage alone does not mean that."""
    until = opened.clock.now_ms() + lease_ms
    place = ticket.place
    extension = Update(
        partition=place.partition,
        sort=place.sort,
        when=AllOf((OwnerIs(ticket.owner, ticket.epoch), LeaseLapsed(until))),
        lease_until=until,
        expires_at=until + ticket.terms.window_ms,
        add_revision=1,
    )
    try:
        await opened.home.store.write(extension)
    except Refused as refused:
        return refused.item is not None and refused.item.owner == ticket.owner
    except StoreUnavailable:
        return True
    return True


async def complete(opened: Opened, ticket: Ticket, result: Raw = NO_RESULT, *, lost: str = "") -> Ended:
    """Record the result, or that there is a result which cannot be kept. Raises ``LeaseLost``, ``StoreUnavailable``."""
    return await _settle(opened, ticket, COMPLETED, replace(ticket.record, result=result, lost=lost))


async def fail(opened: Opened, ticket: Ticket, error: ErrorRecord) -> Ended:
    """Record an error that every repeat is to get. Raises ``LeaseLost``, ``StoreUnavailable``."""
    return await _settle(opened, ticket, FAILED, replace(ticket.record, error=error))


async def release(opened: Opened, ticket: Ticket) -> None:
    """Let the same payload be tried again at once; the number of attempts stays. Raises ``LeaseLost``,
    ``StoreUnavailable``.
    """
    await _settle(opened, ticket, FREE, ticket.record)


async def _settle(opened: Opened, ticket: Ticket, status: str, record: Record) -> Ended:
    record = replace(record, finished=record.finished + 1)
    expires_at = opened.clock.now_ms() + ticket.terms.window_ms
    as_ours = AllOf((OwnerIs(ticket.owner, ticket.epoch), StatusIn((RUNNING,))))
    settlement = changed(ticket.place, as_ours, status, record, expires_at=expires_at)

    def ours(there: Item | None) -> bool:
        return there is not None and there.status == status and there.body == settlement.body

    try:
        await write_for_caller(opened.home.store, settlement, ours=ours)
    except Refused:
        opened.emit("fenced", partition=ticket.place.partition)
        raise LeaseLost(
            f"the lease of key {ticket.place.sort} ran out and it was taken over: the outcome of this attempt was not "
            "recorded. Repeat the call with the same key and payload to get the outcome that counts"
        ) from None
    return Ended(status, record, expires_at)
