"""How an execution has ended, in the words of AWS."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec
from msgspec import Struct

from holdfast.asl.errors import TIMEOUT, Error
from holdfast.workflows.record import (
    CANCELLED,
    COMPENSATION_FAILED,
    COMPLETED,
    FAILED,
    TERMINATED,
    TIMED_OUT,
)

if TYPE_CHECKING:
    from holdfast.failure import ErrorRecord
    from holdfast.workflows.record import ExecutionRecord

SUCCEEDED: Final = "SUCCEEDED"
ABORTED: Final = "ABORTED"

STATUS_OF: Final = {
    COMPLETED: SUCCEEDED,
    FAILED: "FAILED",
    COMPENSATION_FAILED: "FAILED",
    CANCELLED: ABORTED,
    TERMINATED: ABORTED,
    TIMED_OUT: "TIMED_OUT",
}
"""AWS's status of an execution that has ended; any other is RUNNING."""

_ERROR: Final = f"{Error.__module__}.{Error.__qualname__}"


class Stop(Struct, frozen=True):
    """What StopExecution was given, as the reason of the cancellation holds it."""

    error: str | None = None
    cause: str | None = None


def failure_in(status: str, record: ExecutionRecord) -> tuple[str | None, str | None]:
    """The error and the cause of an execution of this status of AWS, where it has any."""
    error = record.error
    match status:
        case "TIMED_OUT":
            return TIMEOUT, None
        case "ABORTED" if error is not None:
            return stopped(error.message)
        case "FAILED" if error is not None:
            return told_of(error)
        case _:
            return None, None


def told_of(error: ErrorRecord) -> tuple[str | None, str | None]:
    """The error and the cause that the record of an error stands for."""
    if error.type == _ERROR and error.args:
        name, cause = (*error.args, None)[:2]
        return name, cause
    return error.type.rpartition(".")[2], error.message


def stopped(reason: str) -> tuple[str | None, str | None]:
    """The error and the cause that StopExecution was given. A cancellation in Python has only a cause."""
    try:
        given = msgspec.json.decode(reason, type=Stop)
    except msgspec.MsgspecError:
        return None, reason or None
    return given.error, given.cause
