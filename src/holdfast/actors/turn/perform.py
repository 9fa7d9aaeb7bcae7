"""Running one call of an actor: in, the actor between two calls; out, the actor after it, or as it was (G4)."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from msgspec import Raw
from msgspec.structs import replace

from holdfast.actors.record import NOT_BEGUN, Call, Reply, fingerprint_of, timer_place
from holdfast.actors.timers import after_firing, settings_replaced
from holdfast.actors.turn.entity import Delivery, Replied, Resident, Version
from holdfast.actors.turn.failure import end_trouble, fail, let_go_of, was_set_aside
from holdfast.actors.turn.fenced_caller import refuse_if_overtaken
from holdfast.actors.turn.reply import find_reply, receipt, remembered, replied, reply_writes
from holdfast.actors.turn.scope import Turn
from holdfast.coordination.lease import Fenced
from holdfast.coordination.salt import HomeSalt
from holdfast.errors import CallTimeout, InvalidInput, StoreUnavailable, UnknownName
from holdfast.items import Delete, one_per_place, parts_of
from holdfast.kernel.identity import identity_of
from holdfast.kernel.model import LeftBehind

if TYPE_CHECKING:
    from holdfast.kernel.runtime import Runtime

NO_REPLY = Raw(b"null")
"""What a message was answered that nobody awaited."""

DELETE_METHOD = "!delete"
"""The message that ends an actor."""

OWN_WRITES = 5
"""At most so many writes go with a call beside those that it sends: the head, the reply, the receipt, and some room."""


async def run_one(delivery: Delivery, actor: Resident, runtime: Runtime) -> None:
    """Run a delivery and leave behind what is to be committed for it."""
    call = delivery.call
    if delivery.answer is not None and call.chain:
        try:
            await refuse_if_overtaken(call, runtime)
        except Fenced as fenced:
            delivery.fail(fenced)
            return
    if call.known and (earlier := await _earlier_reply(call, actor, runtime)) is not None:
        if earlier.parked:
            runtime.emit("message_repeated", partition=actor.partition, place=delivery.place)
        end_trouble(delivery, actor)
        actor.finish(delivery, _answer_again(earlier, call, actor, runtime), receipt(delivery, actor))
        return
    if await was_set_aside(delivery, actor, runtime):
        runtime.emit("message_repeated", partition=actor.partition, place=delivery.place)
        end_trouble(delivery, actor)
        actor.finish(delivery, Replied(), receipt(delivery, actor))
        return
    if call.method == DELETE_METHOD:
        _delete(delivery, actor, runtime)
        return
    if delivery.timer is not None and delivery.skips:
        _skip(delivery.timer, actor, runtime)
        return
    actor.running = delivery
    turn = _turn_for(delivery, actor, await runtime.kept.get(HomeSalt, HomeSalt).of(runtime.home), runtime)
    try:
        with turn:
            outcome = await _invoke(delivery, turn, actor, runtime)
    except LeftBehind:
        raise  # what runs now is another's
    except BaseException:
        _stopped(actor)
        raise
    _stopped(actor)
    if outcome.error is None:
        _succeed(delivery, turn, outcome, actor, runtime)
    else:
        actor.actor = None  # its state may be half changed: the next call begins with what is stored
        fail(delivery, outcome.error, tuple(turn.called), actor, runtime)


# ── The call itself ─────────────────────────────────────────────────────────────────────────────────────────────────


async def _invoke(delivery: Delivery, turn: Turn, actor: Resident, runtime: Runtime) -> Replied:
    """Run the method. Its outcome has the encoded result, or the error that it, its arguments or its result made."""
    kind, call = actor.kind, delivery.call
    try:
        made: Any = kind.methods.get(call.method) or kind.timers.get(call.method)
        if made is None:
            return Replied(error=_unknown(call, actor))
        if actor.actor is None:
            assert actor.version is not None
            actor.actor = kind.decoded(actor.version.state)
        leave = partial(_leave_behind, delivery, turn, actor, runtime) if actor.turn is not None else None
        run = kind.run(made, actor.actor, turn, bytes(call.args), runtime, leave)
        result = await run
        what = f"the result of {kind.name}.{call.method}"
        data, _ = made.signature.result.copy(result, what, runtime.limit_bytes)
        _refuse_if_too_much(turn, actor, runtime)
        turn.state = _encoded(actor, runtime)
    except StoreUnavailable:
        raise  # nobody's answer: the turn begins again when the store is back
    except Exception as error:  # noqa: BLE001 - whatever the user's code raises is the call's outcome
        return Replied(error=error)
    return Replied(data)


def _stopped(actor: Resident) -> None:
    actor.running = None
    actor.waits_for.clear()


def _leave_behind(delivery: Delivery, turn: Turn, actor: Resident, runtime: Runtime, error: CallTimeout) -> None:
    """A method goes on although it was cancelled. It was a failed attempt, and the actor goes on without it: as with a
    process that comes back late, nothing of what it still does is kept (G3).
    """
    runtime.emit("method_left_behind", partition=actor.partition, method=delivery.call.method)
    turn.close()
    _stopped(actor)
    actor.actor = None
    actor.suspects.discard(delivery.place)
    assert actor.version is not None
    record = actor.version.record
    # Something to write in any case: what comes next runs under a higher epoch, and its fence shuts this one out.
    actor.version = Version(replace(record, settings=record.settings + 1), actor.version.state)
    fail(delivery, error, tuple(turn.called), actor, runtime)
    assert runtime.host is not None
    runtime.host.leave_behind(actor)


def _encoded(actor: Resident, runtime: Runtime) -> bytes:
    """The state as it is stored, proven to come back as it is if it has changed (G12)."""
    assert actor.actor is not None
    assert actor.version is not None
    data = actor.kind.encode(actor.actor)
    if data != actor.version.state:
        actor.kind.prove(actor.actor, runtime.limit_bytes)
    return data


def _refuse_if_too_much(turn: Turn, actor: Resident, runtime: Runtime) -> None:
    bounds = runtime.home.bounds
    writes = one_per_place(turn.writes)
    if bounds is not None and not bounds.fit(writes, besides=OWN_WRITES):
        raise InvalidInput(
            f"one call of {actor.kind.name} sends {len(writes)} writes, and this home commits at most "
            f"{bounds.writes - OWN_WRITES} of them, and {bounds.body_bytes:,} bytes, with the state. Send less in one "
            "call: a message to itself can go on"
        )


def _unknown(call: Call, actor: Resident) -> UnknownName:
    known = ", ".join(actor.kind.methods) or "none"
    return UnknownName(f"{actor.kind.name} has no method {call.method!r} here; there are: {known}")


def _turn_for(delivery: Delivery, actor: Resident, salt: str, runtime: Runtime) -> Turn:
    assert actor.version is not None
    call, record = delivery.call, actor.version.record
    tick = delivery.tick
    if tick is None and call.method in actor.kind.timers:  # it was set aside, and is a message now
        tick = call.sent_at
    turn = Turn(
        actor.partition,
        runtime,
        record,
        call.chain,
        identity_of(call.naming, salt, actor.partition, call.id),
        fence=actor.epoch,
        due_at=tick,
        promised=actor.promised,
    )
    turn.keeps = bool(delivery.place) or call.kept
    return turn


def _skip(timer: str, actor: Resident, runtime: Runtime) -> None:
    """Set a timer to its next tick without running it."""
    assert actor.version is not None
    record = actor.version.record
    timers = after_firing(timer, record.timers, record.timers, runtime.clock.now_ms())
    actor.version = Version(replace(record, timers=timers), actor.version.state)
    runtime.emit("tick_skipped", partition=actor.partition, timer=timer)


# ── What it leaves behind ───────────────────────────────────────────────────────────────────────────────────────────


def _succeed(delivery: Delivery, turn: Turn, outcome: Replied, actor: Resident, runtime: Runtime) -> None:
    version = actor.version
    assert version is not None
    record, timers = version.record, turn.timers
    if delivery.timer is not None:
        timers = after_firing(delivery.timer, record.timers, timers, runtime.clock.now_ms())
    trouble, called = record.trouble, turn.called
    if delivery.place in trouble:
        called = dict.fromkeys((*trouble[delivery.place].called, *called))
    if trouble and (delivery.place in trouble or timers is not record.timers):
        gone = {delivery.place, *(timer_place(name) for name in settings_replaced(record.timers, timers))}
        trouble = {name: each for name, each in trouble.items() if name not in gone}
    recent = remembered(delivery.call, record, runtime)
    changed = (timers, turn.settings, turn.stamp, trouble, recent) != (
        record.timers,
        record.settings,
        record.stamp,
        record.trouble,
        record.recent,
    )
    if changed:
        record = replace(
            record, timers=timers, settings=turn.settings, stamp=turn.stamp, trouble=trouble, recent=recent
        )
    if changed or turn.state != version.state or version.deleted:
        actor.version = Version(record, turn.state)
    actor.finish(delivery, outcome, (*turn.writes, *reply_writes(delivery, outcome, actor, runtime)), turn.rings)
    let_go_of(called, delivery, actor, runtime)


def _delete(delivery: Delivery, actor: Resident, runtime: Runtime) -> None:
    """End the actor. What was sent to this life of it, and was to come later, does not come to the next."""
    kind = actor.kind
    ended = [Delete(actor.partition, sort) for sort in actor.end_messages(runtime.clock.now_ms())]
    for part in parts_of(ended, runtime.home.bounds):  # one write with the deletion, or before it: never left behind it
        actor.finish(Delivery(delivery.call), Replied(), tuple(part))
    actor.actor = kind.fresh()
    state = kind.encode(actor.actor)
    assert actor.version is not None
    before = actor.version.record
    record = replace(before, schema=kind.schema, state=NOT_BEGUN, timers={}, trouble={}, halted_by=None)
    actor.version = Version(record, state, deleted=True)
    outcome = Replied(b"null")
    actor.finish(delivery, outcome, reply_writes(delivery, outcome, actor, runtime))


# ── Replies ─────────────────────────────────────────────────────────────────────────────────────────────────────────


async def _earlier_reply(call: Call, actor: Resident, runtime: Runtime) -> Reply | None:
    assert actor.version is not None
    if call.id in actor.version.record.recent:
        return Reply(fingerprint_of(call), NO_REPLY)
    return actor.replies.get(call.id) or await find_reply(actor.partition, call.id, runtime)


def _answer_again(reply: Reply, call: Call, actor: Resident, runtime: Runtime) -> Replied:
    if reply.fingerprint != fingerprint_of(call):
        runtime.emit("message_mismatched", partition=actor.partition, id=call.id)
    return replied(reply, call, actor.partition, runtime)
