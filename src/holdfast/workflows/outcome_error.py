"""How an execution that ended without a result looks to those who await it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from holdfast.errors import (
    CompensationFailed,
    ExecutionCancelled,
    ExecutionError,
    ExecutionFailed,
    ExecutionTerminated,
    ExecutionTimedOut,
)
from holdfast.workflows.record import CANCELLED, COMPENSATION_FAILED, TERMINATED, TIMED_OUT, ExecutionRecord

if TYPE_CHECKING:
    from holdfast.failure import ErrorRegistry


def outcome_error(status: str, record: ExecutionRecord, errors: ErrorRegistry) -> ExecutionError:
    """The error for callers that await an execution that ended without a result. Its cause is what the body raised."""
    error = record.error
    name, message = (error.type.rpartition(".")[2], error.message) if error is not None else ("", "")
    if name in ("CancelledError", "ExecutionTerminated"):
        name = ""  # the status has said it
    because = f"{name}: {message}" if name else message
    told = f"{record.workflow} {record.id!r} ended as {status}: {because}"
    outcome = OUTCOME_ERRORS.get(status, ExecutionFailed)(told, name, message)
    if error is not None and name:
        outcome.__cause__ = errors.rebuild(error)
    return outcome


OUTCOME_ERRORS: Final = {
    CANCELLED: ExecutionCancelled,
    TIMED_OUT: ExecutionTimedOut,
    TERMINATED: ExecutionTerminated,
    COMPENSATION_FAILED: CompensationFailed,
}
