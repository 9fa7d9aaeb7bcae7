"""How far a Map run has come, and what it keeps to: counted in its body, told by a query, changed by a signal."""

from __future__ import annotations

from collections import Counter
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from holdfast.asl.ending import ABORTED, SUCCEEDED
from holdfast.asl.errors import EXCEED_TOLERATED_FAILURE_THRESHOLD, StatesError
from holdfast.asl.orders import Child, MapCursor, MapOrder, Tolerance
from holdfast.errors import ExecutionCancelled, ExecutionTerminated, ExecutionTimedOut

THRESHOLD_EXCEEDED: Final = "The specified tolerated failure threshold was exceeded"

MOST_CONCURRENCY: Final = 10_000
"""The most child executions at a time of AWS."""
USUAL_CONCURRENCY: Final = 100
"""How many child executions a Map run has at a time that says nothing of it."""

UPDATE: Final = "update"
REPORT: Final = "report"
"""The signal that changes a Map run, and the query that tells how far it is: the function of this name."""

RUNNING: Final = "RUNNING"
TIMED_OUT: Final = "TIMED_OUT"
FAILED: Final = "FAILED"

Counts = dict[str, int]
"""How many are of a status of AWS; those that have not begun, or not ended, are not counted."""


class Update(Struct, frozen=True, omit_defaults=True):
    """What UpdateMapRun changes. ``None`` leaves it as it is."""

    concurrency: int | None = None
    count: int | None = None
    percentage: float | None = None


class Report(Struct, frozen=True):
    """What DescribeMapRun tells of a Map run besides its status.

    ``open`` has the index, and the number of items, of each child execution that was asked for and whose end the Map
    run has not recorded. One that runs is among them. So is each that a Map run leaves behind which fails or is
    stopped: that child may have ended by itself before it was stopped, and only its own head tells.
    """

    concurrency: int
    tolerance: Tolerance
    executions: Counts
    items: Counts
    all_executions: int
    all_items: int
    written: bool
    open: list[tuple[int, int]] = []


def concurrency_in_force(asked: int) -> int:
    """How many child executions run at a time where ``asked`` is what the Map says: 0 if it says nothing."""
    return min(asked or USUAL_CONCURRENCY, MOST_CONCURRENCY)


class Progress:
    """Counts the child executions of a Map run, by how they ended, and says when too many have failed."""

    def __init__(self, order: MapOrder, cursor: MapCursor) -> None:
        self.order = order
        self.written = False
        self._executions, self._items = Counter(cursor.executions), Counter(cursor.items)
        self._open: dict[int, int] = {}
        self._errors: list[Exception] = []

    def cursor(self, place: int) -> MapCursor:
        """Where the next run begins, at this part."""
        return MapCursor(place, dict(self._executions), dict(self._items))

    def report(self) -> Report:
        """How far it has come."""
        return Report(
            concurrency_in_force(self.order.concurrency),
            self.order.tolerance,
            dict(self._executions),
            dict(self._items),
            len(self.order.parts),
            sum(part.items for part in self.order.parts),
            self.written,
            list(self._open.items()),
        )

    def began(self, child: Child) -> None:
        """A child execution has been asked for."""
        self._open[child.index] = child.part.items

    def ended(self, child: Child, error: Exception | None) -> None:
        """A child execution has ended, with an error if it failed."""
        status = SUCCEEDED if error is None else _status(error)
        self._executions[status] += 1
        self._items[status] += self._open.pop(child.index)
        if error is not None:
            self._errors.append(error)

    def too_much(self) -> StatesError | None:
        """The error to fail with, if more child executions have failed than are tolerated. It comes from all that have
        failed in this run, so that a retry tries each of them again.
        """
        failed = sum(self._executions[status] for status in (FAILED, TIMED_OUT, ABORTED))
        if not self.order.tolerance.exceeded(failed, len(self.order.parts)):
            return None
        exceeded = StatesError(EXCEED_TOLERATED_FAILURE_THRESHOLD, THRESHOLD_EXCEEDED)
        if self._errors:
            exceeded.__cause__ = ExceptionGroup(THRESHOLD_EXCEEDED, self._errors)
        return exceeded

    def update(self, update: Update) -> None:
        """Keep to something else from now on."""
        tolerance = self.order.tolerance
        count = tolerance.count if update.count is None else update.count
        percentage = tolerance.percentage if update.percentage is None else update.percentage
        concurrency = self.order.concurrency if update.concurrency is None else update.concurrency
        self.order = replace(self.order, concurrency=concurrency, tolerance=Tolerance(count, percentage))


def _status(error: Exception) -> str:
    match error:
        case ExecutionTimedOut():
            return TIMED_OUT
        case ExecutionCancelled() | ExecutionTerminated():
            return ABORTED
        case _:
            return FAILED
