"""Running one call of an actor: in, the actor between two calls; out, the actor after it, or as it was (G4)."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Final

from msgspec.structs import replace

from holdfast.actors.mailbox.queue import Delivery
from holdfast.actors.record import Call
from holdfast.actors.scope import Turn
from holdfast.actors.turn.aftermath import Deletion, Earlier, Ran, Skip, Version
from holdfast.actors.turn.entity import ActorEntity
from holdfast.actors.turn.failure import TellCaller, Verdict, after_failure, attempts_in
from holdfast.actors.turn.fenced_caller import refuse_if_overtaken
from holdfast.actors.turn.replies import find_earlier
from holdfast.coordination.lease import Fenced
from holdfast.coordination.salt import HomeSalt
from holdfast.errors import CallTimeout, InvalidInput, StoreUnavailable, UnknownName
from holdfast.failure import describe
from holdfast.items import one_per_place
from holdfast.kernel.identity import identity_of
from holdfast.kernel.outcomes import LeftBehind

if TYPE_CHECKING:
    from holdfast.kernel.runtime import Runtime

DELETE_METHOD: Final = "!delete"
"""The message that ends an actor."""

OWN_WRITES: Final = 5
"""How many writes go with a call at most, those that it sends not counted: the head, the reply, the receipt, and some
room."""


async def run_one(delivery: Delivery, actor: ActorEntity, runtime: Runtime) -> None:
    """Run a delivery and leave behind what is to be committed for it."""
    if delivery.answer is not None and delivery.call.chain:
        try:
            await refuse_if_overtaken(delivery.call, runtime)
        except Fenced as fenced:
            delivery.fail(fenced)
            return
    version = actor.version
    assert version is not None
    became = await perform(delivery, version, actor, runtime)
    actor.apply(actor.aftermath(delivery, version, runtime).of(became))


async def perform(
    delivery: Delivery, version: Version, actor: ActorEntity, runtime: Runtime
) -> Ran | Earlier | Deletion | Skip | Verdict:
    """Run a delivery, unless it has come before. What became of it."""
    call = delivery.call
    if call.known or delivery.sort is not None:
        earlier = await find_earlier(delivery, version.record, actor.replies, actor.partition, runtime)
        if earlier is not None:
            return Earlier(earlier)
    if call.method == DELETE_METHOD:
        return Deletion(actor.drop_delayed(runtime.clock.now_ms()))
    if delivery.timer is not None and delivery.skips:
        return Skip(delivery.timer)
    salt = await runtime.kept.get(HomeSalt, HomeSalt).of(runtime.home)
    if actor.lost:  # it was lost while its replies, or the salt, were read
        raise Fenced(f"{actor.partition}: its lease is lost")
    turn = _turn_for(delivery, version, actor, salt, runtime)
    actor.running = delivery
    try:
        with turn:
            ran = await _run(delivery, turn, version, actor, runtime)
    except LeftBehind:
        raise  # what runs now is another's
    except BaseException:
        actor.stopped()
        raise
    actor.stopped()
    if isinstance(ran, Ran):
        return ran
    return _verdict(ran, turn, delivery, version, actor, runtime)


def _verdict(
    error: Exception, turn: Turn, delivery: Delivery, version: Version, actor: ActorEntity, runtime: Runtime
) -> Verdict:
    before, now = version.trouble(delivery.place), runtime.clock.now_ms()
    verdict = after_failure(error, tuple(turn.called), delivery, before, actor.kind.policy, now)
    if not isinstance(verdict, TellCaller):
        attempt = attempts_in(verdict.trouble)
        runtime.emit("message_failed", partition=actor.partition, attempt=attempt, error=describe(error).type)
    return verdict


# ── The method ──────────────────────────────────────────────────────────────────────────────────────────────────────


def _turn_for(delivery: Delivery, version: Version, actor: ActorEntity, salt: str, runtime: Runtime) -> Turn:
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


async def _run(
    delivery: Delivery, turn: Turn, version: Version, actor: ActorEntity, runtime: Runtime
) -> Ran | Exception:
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
    return Ran(turn, data, instance, state)


def _unknown(call: Call, actor: ActorEntity) -> UnknownName:
    known = ", ".join(actor.kind.methods) or "none"
    return UnknownName(f"{actor.kind.name} has no method {call.method!r} here; there are: {known}")


def _refuse_if_too_much(turn: Turn, actor: ActorEntity, runtime: Runtime) -> None:
    bounds = runtime.home.bounds
    writes = one_per_place(turn.writes)
    if bounds is not None and not bounds.fit(writes, besides=OWN_WRITES):
        raise InvalidInput(
            f"one call of {actor.kind.name} sends {len(writes)} writes, and this home commits at most "
            f"{bounds.writes - OWN_WRITES} of them, and {bounds.body_bytes:,} bytes, with the state. Send less in one "
            "call: a message to itself can go on"
        )


def _leave_behind(
    delivery: Delivery, turn: Turn, version: Version, actor: ActorEntity, runtime: Runtime, error: CallTimeout
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
    verdict = _verdict(error, turn, delivery, version, actor, runtime)
    actor.apply(actor.aftermath(delivery, version, runtime).of(verdict))
    assert runtime.host is not None
    runtime.host.leave_behind(actor)
