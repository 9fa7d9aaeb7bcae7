"""What becomes of messages and timers that fail, or kill their process: tried again, then parked or stopped at."""

from __future__ import annotations

from collections.abc import Iterable
from random import Random
from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from holdfast.actors.mailbox.parked import mark_of, parking
from holdfast.actors.mailbox.queue import Delivery, Replied
from holdfast.actors.record import Call, Trouble
from holdfast.actors.timers import after_firing
from holdfast.actors.turn.entity import Finished, Performed, Resident, Version, carried
from holdfast.actors.turn.reply import Place, answered, let_go, receipt
from holdfast.errors import CallFailed
from holdfast.failure import describe

if TYPE_CHECKING:
    from holdfast.actors.kind import Kind
    from holdfast.kernel.runtime import Runtime

DEATHS_PER_ATTEMPT: Final = 4
"""How many deaths of its process count as one failed attempt of a message: most of them are not its fault."""


# ── After a takeover ────────────────────────────────────────────────────────────────────────────────────────────────


def begun(delivery: Delivery, version: Version) -> Performed:
    """Note that an attempt begins, so that a message, or a timer, which kills its process is found in the end."""
    trouble = version.record.trouble.get(delivery.place, Trouble())
    version = _troubled(version, delivery.place, replace(trouble, started=trouble.started + 1))
    return Performed(version, (carried(delivery.call, version),))


def deadly(delivery: Delivery, version: Version, actor: Resident, runtime: Runtime) -> Performed | None:
    """What becomes of a message, or a timer, that has killed its process too often; ``None`` if it has not."""
    trouble = version.record.trouble.get(delivery.place, Trouble())
    # No error was raised, so which errors the policy tries again does not matter: only how often.
    if not trouble.started or _attempts(trouble) < actor.kind.policy.retry.max_attempts:
        return None
    killed = RuntimeError(f"its process died {trouble.started} times while it was handled")
    if delivery.call.replies:
        return answered_with(killed, (), delivery, version, actor, runtime)
    trouble = replace(trouble, error=trouble.error or describe(killed))
    return _given_up(delivery, trouble, version, actor, runtime)


# ── After an attempt ────────────────────────────────────────────────────────────────────────────────────────────────


def failed(
    delivery: Delivery,
    error: Exception,
    called: tuple[Place, ...],
    version: Version,
    actor: Resident,
    runtime: Runtime,
) -> Performed:
    """An attempt ended badly: tell the caller, or try again later, or give up. What it has ``called`` stays known."""
    call, place = delivery.call, delivery.place
    if call.replies or not place:
        ended = () if call.kept else called  # else the caller may be repaired, and ask again
        return answered_with(error, ended, delivery, version, actor, runtime)
    trouble = version.record.trouble.get(place, Trouble())
    started = trouble.started - (1 if delivery.prepared else 0)
    called = tuple(dict.fromkeys((*trouble.called, *called)))
    trouble = replace(trouble, started=started, failed=trouble.failed + 1, error=describe(error), called=called)
    attempts = _attempts(trouble)
    runtime.emit("message_failed", partition=actor.partition, attempt=attempts, error=describe(error).type)
    delay_ms = actor.kind.policy.retry.next_delay_ms(error, attempts, Random(f"{place}/{attempts}"))
    if delay_ms is None:
        return _given_up(delivery, trouble, version, actor, runtime)
    version = _troubled(version, place, replace(trouble, again_at=runtime.clock.now_ms() + delay_ms))
    again = None if delivery.sort is None else delivery  # a timer comes again by itself
    return Performed(version, (carried(call, version),), again=again)


def answered_with(
    error: Exception,
    called: Iterable[Place],
    delivery: Delivery,
    version: Version,
    actor: Resident,
    runtime: Runtime,
) -> Performed:
    """The caller is told, and it is over."""
    version = version.without_trouble(delivery.place)
    outcome = Replied(error=runtime.registry.errors.rebuild(describe(error), CallFailed))
    finished = answered(delivery, outcome, version, actor, runtime)
    return Performed(version, (finished, *released(called, delivery, version, actor, runtime)))


def released(
    called: Iterable[Place], delivery: Delivery, version: Version, actor: Resident, runtime: Runtime
) -> list[Finished]:
    """Keep the replies of what a delivery has called no longer than a repeat of it is known by its own reply."""
    until = runtime.clock.now_ms() + actor.kind.policy.reply_window_ms
    return [carried(delivery.call, version, tuple(part)) for part in let_go(called, until, runtime.home)]


def _attempts(trouble: Trouble) -> int:
    return trouble.failed + trouble.started // DEATHS_PER_ATTEMPT


def _troubled(version: Version, place: str, trouble: Trouble, *, halts: bool = False) -> Version:
    record = version.record
    record = replace(record, trouble=record.trouble | {place: trouble}, halted_by=place if halts else None)
    return Version(record, version.state)


# ── Poison ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def _given_up(delivery: Delivery, trouble: Trouble, version: Version, actor: Resident, runtime: Runtime) -> Performed:
    """The message is poison: park it, or stop at it."""
    if actor.kind.policy.poison == "halt":
        runtime.emit("halted", partition=actor.partition, place=delivery.place)
        version = _troubled(version, delivery.place, trouble, halts=True)
        return Performed(version, (carried(delivery.call, version),))
    runtime.emit("parked", partition=actor.partition, place=delivery.place)
    return _parked(delivery, trouble, version, actor, runtime.clock.now_ms())


def _parked(delivery: Delivery, trouble: Trouble, version: Version, actor: Resident, now: int) -> Performed:
    """Park a message, visibly, and go on with the next."""
    record = version.without_trouble(delivery.place).record
    timers = record.timers
    if delivery.timer is not None:
        timers = after_firing(delivery.timer, timers, timers, now)
    parked_up_to = max(record.parked_up_to, delivery.sort or "")
    record = replace(record, timers=timers, parked_up_to=parked_up_to)
    version = Version(record, _told_of_parking(delivery.call, version.state, actor.kind))
    writes = parking(actor.partition, delivery.place, delivery.call, trouble, now)
    taken_out = receipt(delivery, actor.partition)
    mark = mark_of(delivery.call) if delivery.call.known else None
    return Performed(version, (Finished(delivery, Replied(), version, (*writes, *taken_out), reply=mark),))


def _told_of_parking(call: Call, state: bytes, kind: Kind) -> bytes:
    """The actor's state when it knows that a message was parked."""
    if kind.note_parked is None:
        return state
    instance = kind.decoded(state)
    kind.note_parked(instance, call)
    return kind.encode(instance)
