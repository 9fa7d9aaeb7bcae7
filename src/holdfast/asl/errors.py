"""What ends a state: an error name and a cause, as Amazon States Language has them."""

from __future__ import annotations

import json
from typing import Final

ALL: Final = "States.ALL"
RUNTIME: Final = "States.Runtime"
TIMEOUT: Final = "States.Timeout"
HEARTBEAT_TIMEOUT: Final = "States.HeartbeatTimeout"
TASK_FAILED: Final = "States.TaskFailed"
DATA_LIMIT_EXCEEDED: Final = "States.DataLimitExceeded"
NO_CHOICE_MATCHED: Final = "States.NoChoiceMatched"
INTRINSIC_FAILURE: Final = "States.IntrinsicFailure"
QUERY_EVALUATION_ERROR: Final = "States.QueryEvaluationError"
RESULT_PATH_MATCH_FAILURE: Final = "States.ResultPathMatchFailure"
EXCEED_TOLERATED_FAILURE_THRESHOLD: Final = "States.ExceedToleratedFailureThreshold"
ITEM_READER_FAILED: Final = "States.ItemReaderFailed"
RESULT_WRITER_FAILED: Final = "States.ResultWriterFailed"


class StatesError(Exception):
    """A state failed. ``error`` is matched by ``Retry`` and ``Catch``; ``cause`` is for people.

    Either may be ``None``, as in a Fail state that names neither.
    """

    def __init__(self, error: str | None, cause: str | None = None) -> None:
        super().__init__(error, cause)
        self.error = error
        self.cause = cause

    def __str__(self) -> str:
        return f"{self.error}: {self.cause}"

    @property
    def names(self) -> tuple[str, ...]:
        """The names that retriers and catchers may use for it."""
        return () if self.error is None else (self.error,)

    @property
    def output(self) -> dict[str, str | None]:
        """What a catcher gets. AWS has an empty text for a missing cause, and nulls where there is no error either."""
        return {"Error": self.error, "Cause": self.cause if self.error is None else self.cause or ""}


class HeartbeatMissed(StatesError):
    """A task gave no sign of life in time. AWS reports it as a time-out, and catches it by either name."""

    def __init__(self) -> None:
        super().__init__(TIMEOUT)

    @property
    def names(self) -> tuple[str, ...]:
        return (TIMEOUT, HEARTBEAT_TIMEOUT)


class EvaluationError(StatesError):
    """The interpreter could not evaluate a state. ``within`` says where, in AWS's words."""

    def within(self, state: str, event_id: int) -> StatesError:
        """The same error with the state in its cause."""
        told = f"An error occurred while executing the state '{state}' (entered at the event id #{event_id}). "
        return StatesError(self.error, told + (self.cause or ""))


LONGEST_CAUSE_BYTES: Final = 12_000
"""As JSON: the arguments of an error are recorded up to 16 KiB."""
CUT: Final = "… (cut)"


LONGEST_ERROR_CHARACTERS: Final = 256
LONGEST_CAUSE_CHARACTERS: Final = 32_768
"""What requests may give (API Reference, "StopExecution" and "SendTaskFailure", ``error`` and ``cause``)."""


def cut(cause: str) -> str:
    """A cause that the record of an error can hold: itself, or its beginning."""
    whole, kept = cause, len(cause)
    while (size := len(json.dumps(cause, ensure_ascii=False).encode(errors="backslashreplace"))) > LONGEST_CAUSE_BYTES:
        kept = kept * LONGEST_CAUSE_BYTES // size - len(CUT)
        cause = whole[:kept] + CUT
    return cause


class Error(Exception):
    """Raise it in a task: ``hf.asl.Error("CardDeclined", "…")`` fails the state with this error and cause.

    Any other exception fails it with the name of its class as the error, and its message as the cause. A cause that is
    too long for the record of an error is cut, and a name over 256 characters.
    """

    def __init__(self, error: str | None, cause: str | None = None) -> None:
        error = None if error is None else error[:LONGEST_ERROR_CHARACTERS]
        cause = None if cause is None else cut(cause)
        super().__init__(error, cause)
        self.error = error
        self.cause = cause

    def __str__(self) -> str:
        return f"{self.error}: {self.cause}"
