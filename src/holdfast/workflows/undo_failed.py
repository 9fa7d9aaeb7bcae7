"""What a person is told if an undo gives up."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from msgspec import Struct

from holdfast.errors import CompensationFailed


class GaveUp(Struct, frozen=True):
    """An undo that gave up: its name, the operation it was to undo, and its error."""

    undo: str
    undoes: str
    error: BaseException


def compensation_failed(gave_up: Sequence[GaveUp], left: Sequence[str], cause: BaseException) -> CompensationFailed:
    """The error that names every undo that gave up, and those ``left`` that were not begun."""
    told = "; ".join(f"{each.undo} gave up with {_named(each.error)} (it is to undo {each.undoes})" for each in gave_up)
    others = f" {len(left)} older steps are not undone either: {', '.join(left)}." if left else ""
    if isinstance(cause, CompensationFailed):  # of a block inside: what it says is said already
        cause = cause.__cause__ or cause
    goes_on = "this undo" if len(gave_up) == 1 else "these undos"
    first = gave_up[0].error
    return CompensationFailed(
        f"{told}. It was to undo what came before {_named(cause)}.{others} Mend the cause, then retry the execution: "
        f"it goes on with {goes_on}",
        type(first).__name__,
        str(first),
    )


def joined(errors: Iterable[CompensationFailed]) -> CompensationFailed:
    """One error for all the sagas of an execution whose undos gave up."""
    first, *others = errors
    if not others:
        return first
    told = " And: ".join(map(str, (first, *others)))
    return CompensationFailed(told, first.error_type, first.error_message)


def _named(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}"
