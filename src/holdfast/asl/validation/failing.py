"""Rules for retriers and catchers."""

from __future__ import annotations

from typing import Any, Final

from holdfast.asl.validation.diagnostic import STYLE, Path
from holdfast.asl.validation.expressions import assignments, template
from holdfast.asl.validation.kinds import is_list, is_object
from holdfast.asl.validation.values import integer, list_of, one_of, real, result_path, text
from holdfast.asl.validation.visit import Shape, Visit, check_object

ALL: Final = "States.ALL"
RESERVED: Final = "States."
PREDEFINED: Final = frozenset(
    {
        ALL,
        "States.BranchFailed",
        "States.DataLimitExceeded",
        "States.ExceedToleratedFailureThreshold",
        "States.HeartbeatTimeout",
        "States.Http.Socket",
        "States.IntrinsicFailure",
        "States.ItemReaderFailed",
        "States.NoChoiceMatched",
        "States.ParameterPathFailure",
        "States.Permissions",
        "States.QueryEvaluationError",
        "States.ResultPathMatchFailure",
        "States.ResultWriterFailed",
        "States.Runtime",
        "States.TaskFailed",
        "States.Timeout",
    }
)
HTTP_STATUS: Final = "States.Http.StatusCode."

MOST_ATTEMPTS: Final = 99_999_999
LONGEST_SECONDS: Final = 99_999_999
LONGEST_DELAY_SECONDS: Final = 31_622_400
"""Source: https://docs.aws.amazon.com/step-functions/latest/dg/concepts-error-handling.html"""


def error_name(visit: Visit, at: Path, value: Any) -> None:
    """The name of an error. Those that begin with ``States.`` are the language's."""
    text(visit, at, value)
    if isinstance(value, str) and value.startswith(RESERVED):
        known = value in PREDEFINED or value.startswith(HTTP_STATUS)
        if not known:
            visit.report(at, f"The language has no error named '{value}'", "UNKNOWN_ERROR_NAME", STYLE)


def retrier(visit: Visit, at: Path, value: Any) -> None:
    """One entry of ``Retry``."""
    check_object(visit, at, value, RETRIER)


def catcher(visit: Visit, at: Path, value: Any) -> None:
    """One entry of ``Catch``."""
    check_object(visit.catching(), at, value, CATCHER)


def retriers(visit: Visit, at: Path, value: Any) -> None:
    """``Retry``."""
    list_of(retrier)(visit, at, value)
    everything_comes_last(visit, at, value)


def catchers(visit: Visit, at: Path, value: Any) -> None:
    """``Catch``."""
    list_of(catcher)(visit, at, value)
    everything_comes_last(visit, at, value)


def everything_comes_last(visit: Visit, at: Path, value: Any) -> None:
    """Report ``States.ALL`` next to other names, or before other entries."""
    for place, entry in enumerate(value if is_list(value) else ()):
        names = entry.get("ErrorEquals") if is_object(entry) else None
        if is_list(names) and ALL in names and (len(names) > 1 or place < len(value) - 1):
            visit.report((*at, place, "ErrorEquals"), "States.ALL must appear alone and at end of list")


ERRORS: Final = list_of(error_name, empty=False)

RETRIER: Final = Shape(
    {
        "Comment": text,
        "ErrorEquals": ERRORS,
        "IntervalSeconds": integer(1, LONGEST_SECONDS),
        "MaxAttempts": integer(0, MOST_ATTEMPTS),
        "BackoffRate": real(1.0, 99_999_999.0),
        "MaxDelaySeconds": integer(1, LONGEST_DELAY_SECONDS),
        "JitterStrategy": one_of("NONE", "FULL"),
    },
    required=("ErrorEquals",),
)
CATCHER: Final = Shape(
    {
        "Comment": text,
        "ErrorEquals": ERRORS,
        "Next": text,
        "ResultPath": result_path,
        "Assign": assignments,
        "Output": template,
    },
    required=("ErrorEquals", "Next"),
    jsonpath=frozenset({"ResultPath"}),
    jsonata=frozenset({"Output"}),
)
