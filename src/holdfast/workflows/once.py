"""What is at most once and may have happened: no retry does it a second time (G10)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from holdfast.errors import InvalidInput, InvalidState, StepFailed, StepInterrupted, StepTimeout
from holdfast.replay.entries import Failed, Intended
from holdfast.workflows.record import describe_partition

if TYPE_CHECKING:
    from holdfast.registrations import Registrations
    from holdfast.workflows.declared import DeclaredStep
    from holdfast.workflows.history import Recorded


class MayHaveHappened(InvalidState):
    """What a retry would try again is at most once, and may have happened."""


def refuse_second_time(recorded: Recorded, ops: Sequence[str], registry: Registrations) -> None:
    """Raise ``MayHaveHappened`` if one of the failed operations, to be tried again, is at most once and has begun."""
    entries = recorded.entries
    begun = {each.op for each in entries if isinstance(each, Intended) and each.op in ops}
    failed = [each for each in entries if isinstance(each, Failed) and each.op in begun]
    if doubtful := [each.op for each in failed if not _did_nothing(each, registry)]:
        raise MayHaveHappened(
            f"{', '.join(doubtful)} of {describe_partition(recorded.head.partition)} is at most once and may have "
            f"happened; find out, and fork(before={doubtful[0]!r}) to do it again"
        )


def _did_nothing(failed: Failed, registry: Registrations) -> bool:
    """Whether its error is one of those after which, the step says, nothing has happened."""
    step: DeclaredStep | None = registry.steps.get(failed.op.rpartition("/")[2].rpartition("#")[0])
    if step is None or step.policy.at_most_once != "attempt":
        return False
    retry, error = step.policy.retry, registry.errors.rebuild(failed.error)
    if isinstance(error, (StepInterrupted, StepTimeout, InvalidInput)):  # outcome unknown, or the result did not fit
        return False
    if isinstance(error, StepFailed):  # its class is not registered, so only its name is known
        return retry.when is None and failed.error.type in map(_type_of, retry.only)
    return retry.retries(error, attempt=0)


def _type_of(error: type[BaseException]) -> str:
    """What a record says of an error's class."""
    return f"{error.__module__}.{error.__qualname__}"
