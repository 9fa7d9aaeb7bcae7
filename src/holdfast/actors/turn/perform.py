"""Running one call of an actor: in, the actor between two calls; out, the actor after it, or as it was (G4)."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from holdfast.actors.mailbox.marks import is_repeat
from holdfast.actors.mailbox.queue import Delivery
from holdfast.actors.record import DELETE_METHOD, Call
from holdfast.actors.scope import LeaseNeeded, Turn
from holdfast.actors.turn.aftermath import Aftermath, Became, Earlier, Early, Failed, Known, Ran, Skip
from holdfast.actors.turn.entity import ActorEntity, Running
from holdfast.actors.turn.failure import attempts_in
from holdfast.actors.turn.handling import Handling, surrounding
from holdfast.actors.turn.performed import Performed, Version
from holdfast.actors.turn.permitted import hold_of, take
from holdfast.actors.turn.replies import find_delivered, find_earlier
from holdfast.coordination.lease import Fenced
from holdfast.coordination.salt import HomeSalt
from holdfast.errors import CallTimeout, StoreUnavailable, UnknownName
from holdfast.kernel.entity import Unowned
from holdfast.kernel.identity import identity_of

if TYPE_CHECKING:
    from holdfast.kernel.runtime import Runtime


async def perform(delivery: Delivery, actor: ActorEntity, runtime: Runtime) -> Performed:
    """Run a delivery, unless it has come before. What it leaves behind; nothing of it is durable yet."""
    assert actor.state is not None
    found = Aftermath(delivery, actor.state.version, actor.state.instance, actor.partition, actor.kind, runtime)
    return found.of(await _run_once(found, actor))


async def _run_once(found: Aftermath, actor: ActorEntity) -> Became:
    delivery, version, runtime = found.delivery, found.before, found.runtime
    call = delivery.call
    assert actor.state is not None
    committed = actor.state.committed.record
    if delivery.numbered:
        if await is_repeat(delivery.place, version.record, committed, actor.partition, runtime.home.store):
            return Known()
        if call.not_before > runtime.clock.now_ms():
            return Early()
    left = actor.uncommitted.replies
    if call.origin is not None:
        delivered = await find_delivered(call, version.record, committed.page, left, actor.partition, runtime)
        if delivered is not None:
            return Earlier(delivered)
    if call.known or delivery.sort is not None:
        unanswered = actor.state.unanswered
        earlier = await find_earlier(delivery, version.record, left, unanswered, actor.partition, runtime)
        if earlier is not None:
            return Earlier(earlier)
    if call.method == DELETE_METHOD:
        return actor.drop_delayed(runtime.clock.now_ms())
    if delivery.timer is not None and delivery.skips:
        return Skip(delivery.timer)
    salt = runtime.home.salt or await runtime.kept.get(HomeSalt, HomeSalt).of(runtime.home)
    if actor.lost:  # it was lost while its replies, or the salt, were read
        raise Fenced(f"{actor.partition}: its lease is lost")
    try:
        hold = hold_of(_method_of(found), call.args, actor, runtime)
    except Exception as error:  # noqa: BLE001 - what the user's functions of the arguments raise is the call's outcome
        return Failed(error)
    if hold is None:
        return await _perform(found, actor, salt)
    try:
        await take(hold, actor, runtime)
        hold.begin()
        return await _perform(found, actor, salt)
    finally:
        hold.end()


async def _perform(found: Aftermath, actor: ActorEntity, salt: str) -> Became:
    """Run a call that nothing speaks against. Nothing is awaited before the user's code."""
    delivery, version, runtime = found.delivery, found.before, found.runtime
    call, due_at = delivery.call, delivery.tick
    if due_at is None and call.method in actor.kind.timers:  # it was parked, and is a message now
        due_at = call.sent_at
    turn = Turn(
        actor.partition,
        runtime,
        version.record,
        call.chain,
        identity_of(call.naming, salt, actor.partition, call.id if call.origin is None else call.origin.id),
        fence=actor.epoch,
        due_at=due_at,
        keeps=bool(delivery.place) or call.kept,
        leased=not isinstance(actor.hold, Unowned),
        pending_heads=actor.uncommitted.pending_heads,
    )
    handling = None if runtime.telemetry.tracer is None else _handling(found)
    actor.running = running = Running(delivery)
    try:
        with turn, surrounding(call.trace, handling, runtime):
            became = await _run(found, turn, actor, handling)
    finally:
        if actor.running is running:  # else it was left behind, and another one runs
            actor.running = None
    if turn.needs_lease:  # the method may have caught the error
        raise LeaseNeeded(turn.partition)
    return became


def _handling(found: Aftermath) -> Handling | None:
    """The attempt that begins; ``None`` for an event that was handled before, which is only acknowledged."""
    kind, call, delivery = found.kind, found.delivery.call, found.delivery
    if kind.is_repeat is not None and kind.is_repeat(found.instance or kind.decoded(found.before.state), call):
        return None
    return Handling(
        partition=found.partition,
        place=delivery.place,
        method=call.method,
        id=call.id,
        trace=call.trace,
        attempt=attempts_in(found.before.failure_of(delivery.place)) + 1,
        began=found.runtime.clock.now_ms(),
    )


async def _run(found: Aftermath, turn: Turn, actor: ActorEntity, handling: Handling | None) -> Ran | Failed:
    """Run the method. It has failed if it, its arguments or its result raise an error."""
    kind, call, runtime = found.kind, found.delivery.call, found.runtime
    # After an error it may be half changed: the next call begins with what is stored.
    assert actor.state is not None
    actor.state.instance = None
    try:
        made = _method_of(found)
        if made is None:
            return Failed(_unknown(call, actor), handling=handling)
        instance = found.instance or kind.decoded(found.before.state)
        leave = partial(_leave_behind, found, turn, actor, handling) if actor.turn is not None else None
        result = await kind.run(made, instance, turn, bytes(call.args), runtime, leave)
        what = f"the result of {kind.name}.{call.method}"
        data, _ = made.signature.result.copy(result, what, runtime.limit_bytes)
        turn.refuse_if_too_much(runtime.home.bounds)
        state = kind.encode(instance)
        if state != found.before.state:
            kind.prove(instance, runtime.limit_bytes)
    except (StoreUnavailable, Fenced):
        raise  # no answer to the caller: the call is made again, when the store is back or by a newer owner
    except Exception as error:  # noqa: BLE001 - whatever the user's code raises is the call's outcome
        return Failed(error, tuple(turn.called), handling)
    return Ran(turn, data, kind.after(instance), state, handling)


def _method_of(found: Aftermath) -> Any:
    kind, name = found.kind, found.delivery.call.method
    return kind.methods.get(name) or kind.timers.get(name)


def _unknown(call: Call, actor: ActorEntity) -> UnknownName:
    known = ", ".join(actor.kind.methods) or "none"
    return UnknownName(f"{actor.kind.name} has no method {call.method!r} here; there are: {known}")


def _leave_behind(
    found: Aftermath, turn: Turn, actor: ActorEntity, handling: Handling | None, error: CallTimeout
) -> None:
    """A method goes on although it was cancelled. It was a failed attempt, and the actor goes on without it: as with a
    process that comes back late, nothing of what it still does is kept (G3).
    """
    if not actor.loaded:  # its worker has stopped, and forgotten it
        turn.close()
        return
    runtime, before = found.runtime, found.before
    runtime.emit("method_left_behind", partition=actor.partition, method=found.delivery.call.method)
    turn.close()
    actor.running = None
    actor.queue.suspects.discard(found.delivery.place)
    # Something to write in any case: what comes next runs under a higher epoch, and its fence shuts this one out.
    before = Version(replace(before.record, settings=before.record.settings + 1), before.state)
    actor.apply(replace(found, before=before).of(Failed(error, tuple(turn.called), handling)))
    assert runtime.host is not None
    runtime.host.leave_behind(actor)
