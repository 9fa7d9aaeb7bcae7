"""Replies: what a request was answered, kept so that a repeat of it, or a caller elsewhere, gets the same (G5)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Final

from msgspec import Raw

from holdfast.actors.mailbox.parked import lies_parked
from holdfast.actors.mailbox.queue import Delivery, Replied
from holdfast.actors.record import (
    REPLY_PREFIX,
    ActorRecord,
    Call,
    Reply,
    decode_reply,
    describe_partition,
    encode,
    fingerprint_of,
)
from holdfast.actors.turn.entity import Finished, Performed, Resident, Version
from holdfast.errors import CallFailed, IdempotencyMismatch, InvalidState, Refused
from holdfast.failure import describe
from holdfast.items import EXISTS, Delete, Item, Put, Update, Write, parts_of
from holdfast.persist import write_for_caller

if TYPE_CHECKING:
    from holdfast.kernel.runtime import Runtime
    from holdfast.ports import Home, Store

RESEND_WINDOW_MS: Final = 600_000
"""How long a message is recognised that its sender's process sends again because the store gave no answer: it does
so for some seconds only."""

MOST_RECENT: Final = 25
"""How many messages are recognised by their ids in the head; more of them in so short a time get items of their own."""

NO_REPLY: Final = Raw(b"null")
"""What a message was answered that no caller awaited."""

Place = tuple[str, str]
"""The partition and sort key of a reply."""


# ── A reply that is there ───────────────────────────────────────────────────────────────────────────────────────────


async def find_reply(partition: str, request_id: str, runtime: Runtime) -> Reply | None:
    """The reply a request was given, if it is known and not too old."""
    item = await runtime.home.store.get(partition, REPLY_PREFIX + request_id)
    if item is None or (item.expires_at is not None and item.expires_at <= runtime.clock.now_ms()):
        return None
    return decode_reply(item.body)


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


# ── A call that comes once more ─────────────────────────────────────────────────────────────────────────────────────


async def repeated(delivery: Delivery, version: Version, actor: Resident, runtime: Runtime) -> Performed | None:
    """What a delivery leaves behind that has come before; ``None`` if it has not."""
    call = delivery.call
    earlier = await earlier_reply(call, version, actor, runtime) if call.known else None
    if earlier is None and not await _lies_parked(delivery, version, actor, runtime):
        return None
    if earlier is None or earlier.parked:
        runtime.emit("message_repeated", partition=actor.partition, place=delivery.place)
    if earlier is not None and earlier.fingerprint != fingerprint_of(call):
        runtime.emit("message_mismatched", partition=actor.partition, id=call.id)
    outcome = Replied() if earlier is None else replied(earlier, call, actor.partition, runtime)
    version = version.without_trouble(delivery.place)
    finished = Finished(delivery, outcome, version, receipt(delivery, actor.partition))
    return Performed(version, (finished,), actor.instance)


async def earlier_reply(call: Call, version: Version, actor: Resident, runtime: Runtime) -> Reply | None:
    """What a call was answered before, durably or not yet."""
    if call.id in version.record.recent:
        return Reply(fingerprint_of(call), NO_REPLY)
    return actor.replies.get(call.id) or await find_reply(actor.partition, call.id, runtime)


async def _lies_parked(delivery: Delivery, version: Version, actor: Resident, runtime: Runtime) -> bool:
    """Whether this very message was parked: it has come once more, from a sender that had no answer."""
    if delivery.sort is None or delivery.sort > version.record.parked_up_to:
        return False
    return await lies_parked(runtime.home.store, actor.partition, delivery.sort)


# ── A reply that is given ───────────────────────────────────────────────────────────────────────────────────────────


def answered(
    delivery: Delivery,
    outcome: Replied,
    version: Version,
    actor: Resident,
    runtime: Runtime,
    *,
    writes: Iterable[Write] = (),
    rings: Iterable[str] = (),
) -> Finished:
    """What is to be committed for a call that has run. Its message leaves the inbox, and its reply is kept if it may be
    asked for: from elsewhere, or again.
    """
    call = delivery.call
    taken_out = receipt(delivery, actor.partition)
    if not call.known or call.id in version.record.recent:
        return Finished(delivery, outcome, version, (*writes, *taken_out), tuple(rings))
    error = None if outcome.error is None else describe(outcome.error)
    reply = Reply(fingerprint_of(call), error=error) if error else Reply(fingerprint_of(call), Raw(outcome.data))
    window = actor.kind.policy.reply_window_ms if call.named else RESEND_WINDOW_MS
    kept = Item(
        partition=actor.partition,
        sort=REPLY_PREFIX + call.id,
        # An error has changed nothing, so a caller that is repaired later may have it tried again.
        expires_at=None if call.kept and not error else runtime.clock.now_ms() + window,
        body=encode(reply),
    )
    return Finished(delivery, outcome, version, (*writes, Put(kept), *taken_out), tuple(rings), reply)


def receipt(delivery: Delivery, partition: str) -> tuple[Write, ...]:
    """Take the message out of the inbox, if it is one."""
    return () if delivery.sort is None else (Delete(partition, delivery.sort, EXISTS),)


def remembered(call: Call, record: ActorRecord, runtime: Runtime) -> dict[str, int]:
    """``record.recent`` with a message in it that is applied, if it has room there.

    It is not awaited, so all there is to keep is that it was applied; where each write is billed an item for that costs
    as much as the message itself.
    """
    if not (runtime.home.writes_are_paid and call.known) or call.named or call.replies:
        return record.recent
    now = runtime.clock.now_ms()
    recent = {id: until for id, until in record.recent.items() if until > now}
    return record.recent if len(recent) >= MOST_RECENT else recent | {call.id: now + RESEND_WINDOW_MS}


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
