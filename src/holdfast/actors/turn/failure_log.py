"""What the log says of a message or a timer that fails."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from holdfast.actors.record import actor_of, describe_partition, key_of
from holdfast.actors.turn.failure import Halt, Park, TryAgain, attempts_in, retry_of
from holdfast.clock import duration
from holdfast.failure import without_values
from holdfast.logs import log, told_error, told_traceback
from holdfast.texts import printable

if TYPE_CHECKING:
    from holdfast.actors.kind import Policy
    from holdfast.actors.mailbox.queue import Delivery
    from holdfast.ports import Home


def log_failure(
    verdict: TryAgain | Halt | Park, partition: str, delivery: Delivery, policy: Policy, now: int, home: Home
) -> None:
    """Log an attempt that ended badly; of the last one, where its error was raised too."""
    failure = verdict.failure
    error = failure.error
    assert error is not None
    if delivery.call.origin is not None:
        error = without_values(error, "what a queue brings is in no log")
    name = printable(f"{describe_partition(partition)}: {delivery.call.method} ({delivery.place})")
    attempt = f"attempt {attempts_in(failure)} of {retry_of(delivery, policy).max_attempts}"
    of = {"actor": actor_of(partition), "key": key_of(partition), "operation": delivery.call.method}
    match verdict:
        case TryAgain():
            seconds = (failure.again_at - now) / 1000
            told = f"the next in {duration(seconds * 1000)}: {told_error(error, home)}"
        case Halt():
            told = f"and its actor halts there\n{told_traceback(error, home)}"
        case Park():
            told = f"and is parked\n{told_traceback(error, home)}"
    log(logging.WARNING, "%s failed, %s, %s", name, attempt, told, of=of)
