"""What is to become of a call, message or timer that fails, or kills its process: a decision, and nothing is done."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING, Final

from msgspec import Struct
from msgspec.structs import replace

from holdfast.actors.mailbox.queue import Delivery
from holdfast.actors.record import FailureRecord
from holdfast.actors.turn.replies import Place
from holdfast.duration import milliseconds
from holdfast.failure import describe
from holdfast.retry import Retry

if TYPE_CHECKING:
    from holdfast.actors.kind import Policy

DEATHS_PER_ATTEMPT: Final = 4
"""How many deaths of its process count as one failed attempt of a message: most of them are not its fault."""


class TellCaller(Struct, frozen=True):
    """The caller hears the error, and it is over. The replies of what it has ``called`` need not be kept any more."""

    error: Exception
    called: tuple[Place, ...] = ()


class TryAgain(Struct, frozen=True):
    """The next attempt is made at ``failure.again_at``."""

    failure: FailureRecord


class Park(Struct, frozen=True):
    """The message is poison: it is parked, visibly, and the actor goes on with the next."""

    failure: FailureRecord


class Halt(Struct, frozen=True):
    """The message is poison, and the order is to be kept: the actor stops at it."""

    failure: FailureRecord


Verdict = TellCaller | TryAgain | Park | Halt


def after_failure(
    error: Exception, called: tuple[Place, ...], delivery: Delivery, before: FailureRecord, policy: Policy, now: int
) -> Verdict:
    """An attempt ended badly: tell the caller, or try again later, or give up. What it has ``called`` stays known."""
    call = delivery.call
    if call.replies or not delivery.place:
        return TellCaller(error, () if call.kept else called)  # the caller of what is kept may ask again
    started = before.started - (1 if delivery.prepared else 0)
    called = tuple(dict.fromkeys((*before.called, *called)))
    failure = replace(before, started=started, failed=before.failed + 1, error=describe(error), called=called)
    attempts = attempts_in(failure)
    retry, random = retry_of(delivery, policy), Random(f"{delivery.place}/{attempts}")
    delay_ms = retry.next_delay_ms(error, attempts, random)
    if delay_ms is None and policy.poison == "halt" and _is_in_queue(delivery):
        delay_ms = milliseconds(retry.max_delay)  # its queue keeps the order: nothing of it comes before this one
    return _given_up(failure, policy) if delay_ms is None else TryAgain(replace(failure, again_at=now + delay_ms))


def retry_of(delivery: Delivery, policy: Policy) -> Retry:
    """How often a message is tried, and when."""
    return policy.ordered_retry if _is_in_queue(delivery) else policy.retry


def _is_in_queue(delivery: Delivery) -> bool:
    """Whether a queue of another service has the message until it is done."""
    return delivery.sort is None and delivery.call.origin is not None


def after_deaths(delivery: Delivery, before: FailureRecord, policy: Policy) -> Verdict | None:
    """What becomes of a message, or a timer, that has killed its process too often; ``None`` if it has not."""
    # No error was raised, so which errors the policy tries again does not matter: only how often.
    if not before.started or attempts_in(before) < policy.retry.max_attempts:
        return None
    killed = RuntimeError(f"its process died {before.started} times while it was handled")
    if delivery.call.replies:
        return TellCaller(killed)
    return _given_up(replace(before, error=before.error or describe(killed)), policy)


def attempts_in(failure: FailureRecord) -> int:
    """How many attempts of a message have failed, as far as that is known."""
    return failure.failed + failure.started // DEATHS_PER_ATTEMPT


def _given_up(failure: FailureRecord, policy: Policy) -> Park | Halt:
    return Halt(failure) if policy.poison == "halt" else Park(failure)
