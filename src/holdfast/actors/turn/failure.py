"""What becomes of messages and timers that fail, or kill their process: tried again, then set aside or stopped at."""

from __future__ import annotations

from collections.abc import Iterable
from random import Random
from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from holdfast.actors.mailbox.parked import lies_parked, mark_of, parking
from holdfast.actors.record import Call, Trouble
from holdfast.actors.timers import after_firing
from holdfast.actors.turn.entity import Delivery, Replied, Resident, Version
from holdfast.actors.turn.reply import Place, let_go, receipt, reply_writes
from holdfast.errors import CallFailed
from holdfast.failure import describe

if TYPE_CHECKING:
    from holdfast.kernel.runtime import Runtime

DEATHS_PER_ATTEMPT: Final = 4
"""So many deaths of its process count as one failed attempt of a message: most of them have nothing to do with it."""


def prepare(delivery: Delivery, actor: Resident, runtime: Runtime) -> bool:
    """After a takeover: note that an attempt begins, so that a message, or a timer, which kills its process is found in
    the end.

    False if it has been found: it is not to run any more.
    """
    assert actor.version is not None
    trouble = actor.version.record.trouble.get(delivery.place, Trouble())
    killed = RuntimeError(f"its process died {trouble.started} times while it was handled")
    # No error was raised, so which errors the policy tries again does not matter: only how often.
    if trouble.started and _attempts(trouble) >= actor.kind.policy.retry.max_attempts:
        if delivery.call.replies:
            answer_error(delivery, killed, actor, runtime)
        else:
            _give_up(delivery, replace(trouble, error=trouble.error or describe(killed)), actor, runtime)
        return False
    delivery.prepared = True
    _set_trouble(delivery, replace(trouble, started=trouble.started + 1), actor)
    actor.finish(Delivery(delivery.call), Replied())
    return True


def fail(delivery: Delivery, error: Exception, called: tuple[Place, ...], actor: Resident, runtime: Runtime) -> None:
    """An attempt ended badly: tell the caller, or try again later, or give up. What it has ``called`` stays known."""
    if delivery.call.replies or not delivery.place:
        answer_error(delivery, error, actor, runtime)
        if not delivery.call.kept:  # else the caller may be mended, and ask again
            let_go_of(called, delivery, actor, runtime)
        return
    assert actor.version is not None
    trouble = actor.version.record.trouble.get(delivery.place, Trouble())
    started = trouble.started - (1 if delivery.prepared else 0)
    called = tuple(dict.fromkeys((*trouble.called, *called)))
    trouble = replace(trouble, started=started, failed=trouble.failed + 1, error=describe(error), called=called)
    delivery.prepared = False
    policy, now = actor.kind.policy, runtime.clock.now_ms()
    attempts = _attempts(trouble)
    runtime.emit("message_failed", partition=actor.partition, attempt=attempts, error=describe(error).type)
    delay_ms = policy.retry.next_delay_ms(error, attempts, Random(f"{delivery.place}/{attempts}"))
    if delay_ms is not None:
        _set_trouble(delivery, replace(trouble, again_at=now + delay_ms), actor)
        actor.finish(Delivery(delivery.call), Replied())
        if delivery.sort is not None:
            actor.mail.appendleft(delivery)
    else:
        _give_up(delivery, trouble, actor, runtime)


def answer_error(delivery: Delivery, error: Exception, actor: Resident, runtime: Runtime) -> None:
    """Whoever called is told, and it is over."""
    end_trouble(delivery, actor)
    outcome = Replied(error=runtime.registry.errors.rebuild(describe(error), CallFailed))
    actor.finish(delivery, outcome, reply_writes(delivery, outcome, actor, runtime))


def let_go_of(called: Iterable[Place], delivery: Delivery, actor: Resident, runtime: Runtime) -> None:
    """Keep the replies of what a delivery has called no longer than a repeat of it is known by its own reply."""
    until = runtime.clock.now_ms() + actor.kind.policy.reply_window_ms
    for part in let_go(called, until, runtime.home):
        actor.finish(Delivery(delivery.call), Replied(), tuple(part))


async def was_set_aside(delivery: Delivery, actor: Resident, runtime: Runtime) -> bool:
    """Whether this very message was set aside: it has come once more, from somebody who had no answer."""
    assert actor.version is not None
    if delivery.sort is None or delivery.sort > actor.version.record.parked_up_to:
        return False
    return await lies_parked(runtime.home.store, actor.partition, delivery.sort)


def end_trouble(delivery: Delivery, actor: Resident) -> None:
    """Forget the attempts of what is over."""
    version = actor.version
    assert version is not None
    if delivery.place in version.record.trouble:
        trouble = {name: each for name, each in version.record.trouble.items() if name != delivery.place}
        actor.version = replace(version, record=replace(version.record, trouble=trouble))


def _attempts(trouble: Trouble) -> int:
    return trouble.failed + trouble.started // DEATHS_PER_ATTEMPT


def _set_trouble(delivery: Delivery, trouble: Trouble, actor: Resident, halted_by: str | None = None) -> None:
    assert actor.version is not None
    record = actor.version.record
    record = replace(record, trouble=record.trouble | {delivery.place: trouble}, halted_by=halted_by)
    actor.version = Version(record, actor.version.state)


# ── Poison ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def _give_up(delivery: Delivery, trouble: Trouble, actor: Resident, runtime: Runtime) -> None:
    """The message is poison: set it aside, or stop at it."""
    if actor.kind.policy.poison == "halt":
        runtime.emit("halted", partition=actor.partition, place=delivery.place)
        _set_trouble(delivery, trouble, actor, halted_by=delivery.place)
        actor.halting = True
        actor.finish(Delivery(delivery.call), Replied())
    else:
        runtime.emit("parked", partition=actor.partition, place=delivery.place)
        _park(delivery, trouble, actor, runtime.clock.now_ms())


def _park(delivery: Delivery, trouble: Trouble, actor: Resident, now: int) -> None:
    """Set a message aside, visibly, and go on with the next."""
    assert actor.version is not None
    record = actor.version.record
    timers = record.timers
    if delivery.timer is not None:
        timers = after_firing(delivery.timer, timers, timers, now)
    others = {name: each for name, each in record.trouble.items() if name != delivery.place}
    parked_up_to = max(record.parked_up_to, delivery.sort or "")
    state = _told_of_parking(delivery.call, actor)
    actor.version = Version(replace(record, timers=timers, trouble=others, parked_up_to=parked_up_to), state)
    writes = parking(actor.partition, delivery.place, delivery.call, trouble, now)
    if delivery.call.known:
        actor.replies[delivery.call.id] = mark_of(delivery.call)
    actor.finish(delivery, Replied(), (*writes, *receipt(delivery, actor)))


def _told_of_parking(call: Call, actor: Resident) -> bytes:
    """The actor's state when it knows that a message was set aside."""
    assert actor.version is not None
    kind = actor.kind
    if kind.note_parked is None:
        return actor.version.state
    actor.actor = kind.decoded(actor.version.state)
    kind.note_parked(actor.actor, call)
    return kind.encode(actor.actor)
