"""Running one call of an actor: in, the actor between two calls; out, the actor after it, or as it was (G4)."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from random import Random
from typing import TYPE_CHECKING, Any, Final

from msgspec import Raw
from msgspec.structs import replace

from holdfast.actors.parked import parking
from holdfast.actors.record import (
    NOT_BEGUN,
    REPLY_PREFIX,
    ActorRecord,
    Call,
    Reply,
    TimerRecord,
    Trouble,
    encode,
    timer_place,
)
from holdfast.actors.replies import find_reply, fingerprint_of, replied
from holdfast.actors.resident import Delivery, Finished, Replied, Resident, Version
from holdfast.actors.scope import Turn
from holdfast.coordination.schedule import Missed, next_after
from holdfast.errors import StoreUnavailable, UnknownName
from holdfast.failure import describe
from holdfast.items import EXISTS, Delete, Item, Put, Write

if TYPE_CHECKING:
    from holdfast.actors.access import ActorAccess

DELETE_METHOD = "!delete"
"""The message that ends an actor."""


RESEND_WINDOW_MS: Final = 600_000
"""How long a message is recognised that its sender's process sends again because the store gave no answer: it does
so for some seconds only."""


DEATHS_PER_ATTEMPT: Final = 4
"""So many deaths of its process count as one failed attempt of a message: most of them have nothing to do with it."""


async def run_one(delivery: Delivery, actor: Resident, access: ActorAccess) -> None:
    """Run a delivery and leave behind what is to be committed for it."""
    call = delivery.call
    if call.known and (earlier := await _earlier_reply(call, actor, access)) is not None:
        _end_trouble(delivery, actor)
        _finish(delivery, actor, _answer_again(earlier, call, actor, access), _receipt(delivery, actor))
        return
    if call.method == DELETE_METHOD:
        _delete(delivery, actor, access)
        return
    if delivery.timer is not None and delivery.tick is None:
        _skip(delivery.timer, actor, access)
        return
    actor.running = delivery
    turn = _turn_for(delivery, actor, access)
    try:
        with turn:
            outcome = await _invoke(call, turn, actor, access)
    finally:
        actor.running = None
        actor.waits_for.clear()
    if outcome.error is None:
        _succeed(delivery, turn, outcome, actor, access)
    else:
        actor.actor = None  # its state may be half changed: the next call begins with what is stored
        _fail(delivery, outcome.error, actor, access)


def prepare(delivery: Delivery, actor: Resident, access: ActorAccess) -> bool:
    """After a takeover: note that an attempt begins, so that a message which kills its process is found in the end.

    False if it has been found: it is not to run any more.
    """
    assert actor.version is not None
    trouble = actor.version.record.trouble.get(delivery.place, Trouble())
    killed = RuntimeError(f"its process died {trouble.started} times while it was handled")
    if trouble.started and not actor.kind.policy.retry.retries(MemoryError(), _attempts(trouble)):
        if delivery.call.replies:
            _answer_error(delivery, killed, actor, access)
        else:
            _give_up(delivery, replace(trouble, error=trouble.error or describe(killed)), actor, access)
        return False
    delivery.prepared = True
    _set_trouble(delivery, replace(trouble, started=trouble.started + 1), actor)
    _finish(Delivery(delivery.call), actor, Replied(), ())
    return True


def _attempts(trouble: Trouble) -> int:
    return trouble.failed + trouble.started // DEATHS_PER_ATTEMPT


# ── The call itself ─────────────────────────────────────────────────────────────────────────────────────────────────


async def _invoke(call: Call, turn: Turn, actor: Resident, access: ActorAccess) -> Replied:
    """Run the method. Its outcome has the encoded result, or the error that it, its arguments or its result made."""
    kind = actor.kind
    try:
        made: Any = kind.methods.get(call.method) or kind.timers.get(call.method)
        if made is None:
            return Replied(error=_unknown(call, actor))
        if actor.actor is None:
            assert actor.version is not None
            actor.actor = kind.restore(kind.state.decode(actor.version.state))
        result = await kind.run(made, actor.actor, turn, bytes(call.args))
        what = f"the result of {kind.name}.{call.method}"
        data, _ = made.signature.result.copy(result, what, access.limit_bytes)
        turn.state = _encoded(actor, access)
    except asyncio.CancelledError as error:
        if (task := asyncio.current_task()) is None or not task.cancelling():
            return Replied(error=RuntimeError(f"{kind.name}.{call.method} was cancelled: {error}"))
        raise
    except StoreUnavailable:
        raise  # nobody's answer: the turn begins again when the store is back
    except Exception as error:  # noqa: BLE001 - whatever the user's code raises is the call's outcome
        return Replied(error=error)
    return Replied(data)


def _encoded(actor: Resident, access: ActorAccess) -> bytes:
    """The state as it is stored, proven to come back as it is if it has changed (G12)."""
    assert actor.actor is not None
    assert actor.version is not None
    data = actor.kind.encode(actor.actor)
    if data != actor.version.state:
        actor.kind.prove(actor.actor, access.limit_bytes)
    return data


def _unknown(call: Call, actor: Resident) -> UnknownName:
    known = ", ".join(actor.kind.methods) or "none"
    return UnknownName(f"{actor.kind.name} has no method {call.method!r} here; there are: {known}")


def _turn_for(delivery: Delivery, actor: Resident, access: ActorAccess) -> Turn:
    assert actor.version is not None
    call, record = delivery.call, actor.version.record
    tick = delivery.tick
    if tick is None and call.method in actor.kind.timers:  # it was set aside, and is a message now
        tick = call.sent_at
    return Turn(actor.partition, access.clock, record, call.chain, call.id, due_at=tick)


def _skip(timer: str, actor: Resident, access: ActorAccess) -> None:
    """Set a timer to its next tick without running it."""
    assert actor.version is not None
    record = actor.version.record
    timers = after_firing(timer, record.timers, record.timers, access.clock.now_ms())
    actor.version = Version(replace(record, timers=timers), actor.version.state)
    access.tell("tick_skipped", partition=actor.partition, timer=timer)


# ── What it leaves behind ───────────────────────────────────────────────────────────────────────────────────────────


def _succeed(delivery: Delivery, turn: Turn, outcome: Replied, actor: Resident, access: ActorAccess) -> None:
    version = actor.version
    assert version is not None
    record, timers = version.record, turn.timers
    if delivery.timer is not None:
        timers = after_firing(delivery.timer, record.timers, timers, access.clock.now_ms())
    trouble = record.trouble
    if trouble and (delivery.place in trouble or timers is not record.timers):
        gone = {delivery.place, *_settings_replaced(record.timers, timers)}
        trouble = {name: each for name, each in trouble.items() if name not in gone}
    changed = (timers, turn.settings, turn.stamp, trouble) != (
        record.timers,
        record.settings,
        record.stamp,
        record.trouble,
    )
    if changed:
        record = replace(record, timers=timers, settings=turn.settings, stamp=turn.stamp, trouble=trouble)
    if changed or turn.state != version.state or version.deleted:
        actor.version = Version(record, turn.state)
    _finish(delivery, actor, outcome, (*turn.writes, *_reply_writes(delivery, outcome, actor, access)), turn.rings)


def _settings_replaced(before: dict[str, TimerRecord], now: dict[str, TimerRecord]) -> Iterator[str]:
    """The places of timers that were set anew or cancelled: the trouble of the old setting is not that of the new."""
    for name, record in before.items():
        if name not in now or now[name].set_count != record.set_count:
            yield timer_place(name)


def _fail(delivery: Delivery, error: Exception, actor: Resident, access: ActorAccess) -> None:
    if delivery.call.replies or not delivery.place:
        _answer_error(delivery, error, actor, access)
        return
    assert actor.version is not None
    trouble = actor.version.record.trouble.get(delivery.place, Trouble())
    started = trouble.started - (1 if delivery.prepared else 0)
    trouble = replace(trouble, started=started, failed=trouble.failed + 1, error=describe(error))
    delivery.prepared = False
    policy, now = actor.kind.policy, access.clock.now_ms()
    attempts = _attempts(trouble)
    access.tell("message_failed", partition=actor.partition, attempt=attempts, error=describe(error).type)
    if policy.retry.retries(error, attempts):
        delay = policy.retry.delay_seconds(attempts, Random(f"{delivery.place}/{attempts}"))
        _set_trouble(delivery, replace(trouble, again_at=now + int(delay * 1000)), actor)
        _finish(Delivery(delivery.call), actor, Replied(), ())
        if delivery.sort is not None:
            actor.mail.appendleft(delivery)
    else:
        _give_up(delivery, trouble, actor, access)


def _answer_error(delivery: Delivery, error: Exception, actor: Resident, access: ActorAccess) -> None:
    _end_trouble(delivery, actor)
    outcome = Replied(error=access.rebuilt(describe(error)))
    _finish(delivery, actor, outcome, _reply_writes(delivery, outcome, actor, access))


def _give_up(delivery: Delivery, trouble: Trouble, actor: Resident, access: ActorAccess) -> None:
    """The message is poison: set it aside, or stop at it."""
    if actor.kind.policy.poison == "halt":
        access.tell("halted", partition=actor.partition, place=delivery.place)
        _set_trouble(delivery, trouble, actor, halted_by=delivery.place)
        actor.halting = True
        _finish(Delivery(delivery.call), actor, Replied(), ())
    else:
        access.tell("parked", partition=actor.partition, place=delivery.place)
        _park(delivery, trouble, actor, access.clock.now_ms())


def _park(delivery: Delivery, trouble: Trouble, actor: Resident, now: int) -> None:
    """Set a message aside, visibly, and go on with the next."""
    assert actor.version is not None
    record = actor.version.record
    timers = record.timers
    if delivery.timer is not None:
        timers = after_firing(delivery.timer, timers, timers, now)
    others = {name: each for name, each in record.trouble.items() if name != delivery.place}
    state = _told_of_parking(delivery.call, actor)
    actor.version = Version(replace(record, timers=timers, trouble=others), state)
    writes = parking(actor.partition, delivery.place, delivery.call, trouble, now)
    _finish(delivery, actor, Replied(), (*writes, *_receipt(delivery, actor)))


def _told_of_parking(call: Call, actor: Resident) -> bytes:
    """The actor's state when it knows that a message was set aside."""
    assert actor.version is not None
    kind = actor.kind
    if kind.note_parked is None:
        return actor.version.state
    actor.actor = kind.restore(kind.state.decode(actor.version.state))
    kind.note_parked(actor.actor, call)
    return kind.encode(actor.actor)


def _delete(delivery: Delivery, actor: Resident, access: ActorAccess) -> None:
    kind = actor.kind
    actor.actor = kind.fresh()
    state = kind.encode(actor.actor)
    assert actor.version is not None
    record = ActorRecord(schema=kind.schema, state=NOT_BEGUN, stamp=actor.version.record.stamp)
    actor.version = Version(record, state, deleted=True)
    outcome = Replied(b"null")
    _finish(delivery, actor, outcome, _reply_writes(delivery, outcome, actor, access))


def _finish(
    delivery: Delivery,
    actor: Resident,
    outcome: Replied,
    writes: tuple[Write, ...],
    rings: list[str] | tuple[str, ...] = (),
) -> None:
    actor.finished.append(Finished(delivery, outcome, writes, tuple(rings)))


def _set_trouble(delivery: Delivery, trouble: Trouble, actor: Resident, halted_by: str | None = None) -> None:
    assert actor.version is not None
    record = actor.version.record
    record = replace(record, trouble=record.trouble | {delivery.place: trouble}, halted_by=halted_by)
    actor.version = Version(record, actor.version.state)


def _end_trouble(delivery: Delivery, actor: Resident) -> None:
    version = actor.version
    assert version is not None
    if delivery.place in version.record.trouble:
        trouble = {name: each for name, each in version.record.trouble.items() if name != delivery.place}
        actor.version = replace(version, record=replace(version.record, trouble=trouble))


def after_firing(
    name: str, fired: dict[str, TimerRecord], now_set: dict[str, TimerRecord], now: int
) -> dict[str, TimerRecord]:
    """The timers after one of them has fired: set to its next tick, unless its own method has set it anew."""
    record = now_set.get(name)
    if record is None or record.set_count != fired[name].set_count:
        return now_set
    if record.schedule is None:
        return {each: other for each, other in now_set.items() if each != name}
    dealt_with = record.due_at if record.missed is Missed.ALL else max(record.due_at, now)
    return now_set | {name: replace(record, due_at=next_after(record.schedule, dealt_with))}


# ── Replies ─────────────────────────────────────────────────────────────────────────────────────────────────────────


async def _earlier_reply(call: Call, actor: Resident, access: ActorAccess) -> Reply | None:
    return actor.replies.get(call.id) or await find_reply(actor.partition, call.id, access)


def _answer_again(reply: Reply, call: Call, actor: Resident, access: ActorAccess) -> Replied:
    if reply.fingerprint != fingerprint_of(call):
        access.tell("message_mismatched", partition=actor.partition, id=call.id)
    return replied(reply, call, actor.partition, access)


def _reply_writes(delivery: Delivery, outcome: Replied, actor: Resident, access: ActorAccess) -> tuple[Write, ...]:
    """Take the message out of the inbox; keep the reply if it may be asked for: from elsewhere, or again."""
    call = delivery.call
    receipt = _receipt(delivery, actor)
    if not call.known:
        return receipt
    error = None if outcome.error is None else describe(outcome.error)
    reply = Reply(fingerprint_of(call), error=error) if error else Reply(fingerprint_of(call), Raw(outcome.data))
    actor.replies[call.id] = reply
    kept = Item(
        partition=actor.partition,
        sort=REPLY_PREFIX + call.id,
        expires_at=access.clock.now_ms() + (actor.kind.policy.reply_window_ms if call.named else RESEND_WINDOW_MS),
        body=encode(reply),
    )
    return (Put(kept), *receipt)


def _receipt(delivery: Delivery, actor: Resident) -> tuple[Write, ...]:
    return () if delivery.sort is None else (Delete(actor.partition, delivery.sort, EXISTS),)
