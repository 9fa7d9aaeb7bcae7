"""Running one call of an actor: in, the actor between two calls; out, the actor after it, or as it was (G4)."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct
from msgspec.structs import replace

from holdfast.actors.mailbox.queue import Delivery, Replied
from holdfast.actors.record import NOT_BEGUN, ActorRecord, Call, timer_place
from holdfast.actors.timers import after_firing, settings_replaced
from holdfast.actors.turn.entity import Performed, Resident, Version, carried
from holdfast.actors.turn.failure import failed, released
from holdfast.actors.turn.fenced_caller import refuse_if_overtaken
from holdfast.actors.turn.reply import answered, remembered, repeated
from holdfast.actors.turn.scope import Turn
from holdfast.coordination.lease import Fenced
from holdfast.coordination.salt import HomeSalt
from holdfast.errors import CallTimeout, InvalidInput, StoreUnavailable, UnknownName
from holdfast.items import Delete, one_per_place, parts_of
from holdfast.kernel.identity import identity_of
from holdfast.kernel.model import LeftBehind

if TYPE_CHECKING:
    from holdfast.actors.kind import Instance
    from holdfast.kernel.runtime import Runtime

DELETE_METHOD: Final = "!delete"
"""The message that ends an actor."""

OWN_WRITES: Final = 5
"""How many writes go with a call at most, those that it sends not counted: the head, the reply, the receipt, and some
room."""


class Ran(Struct, frozen=True):
    """A method has run: its encoded result, and the actor after it, in memory and as it is stored."""

    result: bytes
    instance: Instance
    state: bytes


async def run_one(delivery: Delivery, actor: Resident, runtime: Runtime) -> None:
    """Run a delivery and leave behind what is to be committed for it."""
    try:
        if delivery.answer is not None and delivery.call.chain:
            await refuse_if_overtaken(delivery.call, runtime)
    except Fenced as fenced:
        delivery.fail(fenced)
    else:
        actor.apply(await perform(delivery, actor, runtime))


async def perform(delivery: Delivery, actor: Resident, runtime: Runtime) -> Performed:
    """Run a delivery, unless it has come before. What it leaves behind."""
    version = actor.version
    assert version is not None
    may_repeat = delivery.call.known or delivery.sort is not None
    if may_repeat and (earlier := await repeated(delivery, version, actor, runtime)) is not None:
        return earlier
    if delivery.call.method == DELETE_METHOD:
        return _deleted(delivery, version, actor, runtime)
    if delivery.timer is not None and delivery.skips:
        return _skipped(delivery.timer, version, actor, runtime)
    turn = _turn_for(delivery, version, actor, await runtime.kept.get(HomeSalt, HomeSalt).of(runtime.home), runtime)
    actor.running = delivery
    try:
        with turn:
            outcome = await _run(delivery, turn, version, actor, runtime)
    except LeftBehind:
        raise  # what runs now is another's
    except BaseException:
        actor.stopped()
        raise
    actor.stopped()
    match outcome:
        case Ran() as ran:
            return _succeeded(delivery, turn, ran, version, actor, runtime)
        case error:
            return failed(delivery, error, tuple(turn.called), version, actor, runtime)


# ── The method ──────────────────────────────────────────────────────────────────────────────────────────────────────


def _turn_for(delivery: Delivery, version: Version, actor: Resident, salt: str, runtime: Runtime) -> Turn:
    call, tick = delivery.call, delivery.tick
    if tick is None and call.method in actor.kind.timers:  # it was parked, and is a message now
        tick = call.sent_at
    turn = Turn(
        actor.partition,
        runtime,
        version.record,
        call.chain,
        identity_of(call.naming, salt, actor.partition, call.id),
        fence=actor.epoch,
        due_at=tick,
        promised=actor.promised,
    )
    turn.keeps = bool(delivery.place) or call.kept
    return turn


async def _run(delivery: Delivery, turn: Turn, version: Version, actor: Resident, runtime: Runtime) -> Ran | Exception:
    """Run the method. The error is that which it, its arguments or its result made."""
    kind, call = actor.kind, delivery.call
    # After an error it may be half changed: the next call begins with what is stored.
    instance, actor.instance = actor.instance, None
    try:
        made: Any = kind.methods.get(call.method) or kind.timers.get(call.method)
        if made is None:
            return _unknown(call, actor)
        instance = instance or kind.decoded(version.state)
        leave = partial(_leave_behind, delivery, turn, version, actor, runtime) if actor.turn is not None else None
        result = await kind.run(made, instance, turn, bytes(call.args), runtime, leave)
        what = f"the result of {kind.name}.{call.method}"
        data, _ = made.signature.result.copy(result, what, runtime.limit_bytes)
        _refuse_if_too_much(turn, actor, runtime)
        state = kind.encode(instance)
        if state != version.state:
            kind.prove(instance, runtime.limit_bytes)
    except StoreUnavailable:
        raise  # no answer to the caller: the turn begins again when the store is back
    except Exception as error:  # noqa: BLE001 - whatever the user's code raises is the call's outcome
        return error
    return Ran(data, instance, state)


def _unknown(call: Call, actor: Resident) -> UnknownName:
    known = ", ".join(actor.kind.methods) or "none"
    return UnknownName(f"{actor.kind.name} has no method {call.method!r} here; there are: {known}")


def _refuse_if_too_much(turn: Turn, actor: Resident, runtime: Runtime) -> None:
    bounds = runtime.home.bounds
    writes = one_per_place(turn.writes)
    if bounds is not None and not bounds.fit(writes, besides=OWN_WRITES):
        raise InvalidInput(
            f"one call of {actor.kind.name} sends {len(writes)} writes, and this home commits at most "
            f"{bounds.writes - OWN_WRITES} of them, and {bounds.body_bytes:,} bytes, with the state. Send less in one "
            "call: a message to itself can go on"
        )


def _leave_behind(
    delivery: Delivery, turn: Turn, version: Version, actor: Resident, runtime: Runtime, error: CallTimeout
) -> None:
    """A method goes on although it was cancelled. It was a failed attempt, and the actor goes on without it: as with a
    process that comes back late, nothing of what it still does is kept (G3).
    """
    runtime.emit("method_left_behind", partition=actor.partition, method=delivery.call.method)
    turn.close()
    actor.stopped()
    actor.suspects.discard(delivery.place)
    # Something to write in any case: what comes next runs under a higher epoch, and its fence shuts this one out.
    version = Version(replace(version.record, settings=version.record.settings + 1), version.state)
    actor.apply(failed(delivery, error, tuple(turn.called), version, actor, runtime))
    assert runtime.host is not None
    runtime.host.leave_behind(actor)


# ── What it leaves behind ───────────────────────────────────────────────────────────────────────────────────────────


def _succeeded(
    delivery: Delivery, turn: Turn, ran: Ran, before: Version, actor: Resident, runtime: Runtime
) -> Performed:
    called = turn.called
    if (trouble := before.record.trouble.get(delivery.place)) is not None:
        called = dict.fromkeys((*trouble.called, *called))
    record, version = _record_after(delivery, turn, before.record, runtime), before
    if record is not before.record or ran.state != before.state or before.deleted:
        version = Version(record, ran.state)
    finished = answered(delivery, Replied(ran.result), version, actor, runtime, writes=turn.writes, rings=turn.rings)
    ends = released(called, delivery, version, actor, runtime) if called else ()
    return Performed(version, (finished, *ends), ran.instance)


def _record_after(delivery: Delivery, turn: Turn, before: ActorRecord, runtime: Runtime) -> ActorRecord:
    """The record after a run; the same one if nothing in it has changed."""
    timers, trouble = turn.timers, before.trouble
    if delivery.timer is not None:
        timers = after_firing(delivery.timer, before.timers, timers, runtime.clock.now_ms())
    if trouble and (delivery.place in trouble or timers is not before.timers):
        gone = {delivery.place, *(timer_place(name) for name in settings_replaced(before.timers, timers))}
        trouble = {name: each for name, each in trouble.items() if name not in gone}
    recent = remembered(delivery.call, before, runtime)
    after = (timers, turn.settings, turn.stamp, trouble, recent)
    if after == (before.timers, before.settings, before.stamp, before.trouble, before.recent):
        return before
    return replace(before, timers=timers, settings=turn.settings, stamp=turn.stamp, trouble=trouble, recent=recent)


def _deleted(delivery: Delivery, before: Version, actor: Resident, runtime: Runtime) -> Performed:
    """End the actor. What was sent to this life of it, and was to come later, does not come to the next."""
    kind = actor.kind
    ended = [Delete(actor.partition, sort) for sort in actor.drop_delayed(runtime.clock.now_ms())]
    # One write with the deletion, or before it: never left behind it.
    first = [carried(delivery.call, before, tuple(part)) for part in parts_of(ended, runtime.home.bounds)]
    instance = kind.fresh()
    record = replace(before.record, schema=kind.schema, state=NOT_BEGUN, timers={}, trouble={}, halted_by=None)
    version = Version(record, kind.encode(instance), deleted=True)
    last = answered(delivery, Replied(b"null"), version, actor, runtime)
    return Performed(version, (*first, last), instance)


def _skipped(timer: str, before: Version, actor: Resident, runtime: Runtime) -> Performed:
    """Set a timer to its next tick without running it."""
    timers = after_firing(timer, before.record.timers, before.record.timers, runtime.clock.now_ms())
    runtime.emit("tick_skipped", partition=actor.partition, timer=timer)
    version = Version(replace(before.record, timers=timers), before.state)
    return Performed(version, (), actor.instance)
