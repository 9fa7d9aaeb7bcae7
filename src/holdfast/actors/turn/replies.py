"""Replies: what a request was answered, kept so that a repeat of it, or a caller elsewhere, gets the same (G5)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from msgspec import Raw

from holdfast.actors.mailbox.parked import lies_parked, mark_of
from holdfast.actors.mailbox.queue import Delivery, Replied
from holdfast.actors.record import (
    QUEUE_PREFIX,
    REPLY_PREFIX,
    ActorRecord,
    Call,
    Reply,
    decode_record,
    decode_reply,
    describe_partition,
    fingerprint_of,
)
from holdfast.actors.turn.applied import on_pages
from holdfast.actors.turn.kept_replies import kept_in
from holdfast.actors.turn.ordered import is_repeat
from holdfast.errors import CallFailed, IdempotencyMismatch, InvalidState, Refused
from holdfast.items import EXISTS, Update, Write, parts_of
from holdfast.persist import write_for_caller

if TYPE_CHECKING:
    from holdfast.kernel.runtime import Runtime
    from holdfast.ports import Home, Store

NO_REPLY: Final = Raw(b"null")
"""What a message was answered that no caller awaited."""

Place = tuple[str, str]
"""The partition and sort key of a reply."""


# ── A reply that is there ───────────────────────────────────────────────────────────────────────────────────────────


async def find_reply(partition: str, request_id: str, runtime: Runtime, *, overdue: bool = False) -> Reply | None:
    """The reply a request was given, if it is known and not too old by our clock, or ``overdue`` as well.

    A message that was answered like an earlier one of the same id may get a reply that ends before anyone looks.
    """
    item = await runtime.home.store.get(partition, REPLY_PREFIX + request_id)
    if item is None:
        return None
    is_over = item.expires_at is not None and item.expires_at <= runtime.clock.now_ms()
    return None if is_over and not overdue else decode_reply(item.body)


async def look_for_reply(partition: str, request_id: str, runtime: Runtime) -> Reply | None:
    """The same, wherever it is kept: in the head of the actor, or in an item of its own.

    The head comes first: what moves out of it has its item before it is gone from there.
    """
    head = await runtime.home.store.get(partition)
    record = None if head is None or not head.body else decode_record(head.body)
    kept = None if record is None else kept_in(record, request_id, runtime.clock.now_ms())
    return await find_reply(partition, request_id, runtime) if kept is None else kept.reply


def replied(reply: Reply, call: Call, partition: str, runtime: Runtime) -> Replied:
    """What a stored reply says to a request: an error if it is that of another one under the same id (G11)."""
    if reply.fingerprint != fingerprint_of(call):
        told = f"request {call.id!r} of {describe_partition(partition)} was made with another method or arguments"
        return Replied(error=IdempotencyMismatch(f"{told}. Use another request_id, or the same arguments"))
    if reply.parked:
        return Replied(
            error=InvalidState(
                f"request {call.id!r} of {describe_partition(partition)} was set aside, because its attempts failed: "
                "unpark it to have it applied, or discard it"
            )
        )
    if reply.error is not None:
        return Replied(error=runtime.registry.errors.rebuild(reply.error, CallFailed))
    return Replied(bytes(reply.value))


async def find_earlier(
    delivery: Delivery,
    record: ActorRecord,
    uncommitted: Mapping[str, Reply],
    unanswered: set[str],
    partition: str,
    runtime: Runtime,
) -> Reply | None:
    """What a delivery was answered that has come before; ``None`` if it has not. An id that is ``unanswered`` in the
    store is used up.
    """
    call = delivery.call
    if call.known:
        if (reply := known_reply(call, record, uncommitted, runtime)) is not None:
            return reply
        if call.id in unanswered:
            unanswered.remove(call.id)
        elif (reply := await stored_reply(call, record, partition, runtime)) is not None:
            return reply
    if delivery.sort is None or delivery.sort > record.parked_up_to:
        return None
    # This very message may have been parked, and come once more from a sender that had no answer.
    return mark_of(call) if await lies_parked(runtime.home.store, partition, delivery.sort) else None


def applied(call: Call) -> Reply:
    """What a message was answered that no caller awaits, and that was applied before."""
    return Reply(fingerprint_of(call), NO_REPLY)


async def find_delivered(
    call: Call, record: ActorRecord, page: str, uncommitted: Mapping[str, Reply], partition: str, runtime: Runtime
) -> Reply | None:
    """What a message of a queue of another service was answered before. ``page`` is the last one that is durable."""
    assert call.origin is not None
    if call.origin.id in uncommitted or await is_repeat(call, record, page, partition, runtime):
        return applied(call)
    for id in call.origin.aliases:  # as code before this one knows it
        if (reply := await find_reply(partition, id.removeprefix(QUEUE_PREFIX), runtime)) is not None:
            return reply
    return None


def known_reply(call: Call, record: ActorRecord, uncommitted: Mapping[str, Reply], runtime: Runtime) -> Reply | None:
    """What a call that is known by its id was answered before, as far as that is in memory."""
    if call.id in record.recent:
        return applied(call)
    kept = kept_in(record, call.id, runtime.clock.now_ms())
    return uncommitted.get(call.id) if kept is None else kept.reply


async def stored_reply(call: Call, record: ActorRecord, partition: str, runtime: Runtime) -> Reply | None:
    """What it was answered before, as far as items of the actor say so."""
    if await on_pages((call.id,), record, partition, runtime.home.store):
        return applied(call)
    return await find_reply(partition, call.id, runtime)


# ── A reply that is kept for the caller ─────────────────────────────────────────────────────────────────────────────
# Until the caller has been committed it may run again, and so call again: a message that fails is tried again, or
# parked and delivered again, however late. What it has called must know it then, so those replies have no end. They get
# one with the commit in which the message ends well.


def let_go(called: Iterable[Place], until: int, home: Home) -> Sequence[Sequence[Write]]:
    """The writes that give replies an end (milliseconds), in parts that can be one write each."""
    updates = [_let_go(place, until) for place in called]
    return parts_of(updates, home.bounds)


async def let_go_now(called: Iterable[Place], until: int, store: Store) -> None:
    """Give replies an end, because what has called is gone for good."""
    for place in called:
        try:
            await write_for_caller(store, _let_go(place, until), ours=lambda _there: True)
        except Refused:
            continue  # it is not there any more


def _let_go(place: Place, until: int) -> Update:
    partition, sort = place
    return Update(partition=partition, sort=sort, when=EXISTS, expires_at=until)
