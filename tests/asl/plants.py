"""Planted bugs: each breaks one rule of the interpreter, in one place. What does not find its bug proves nothing."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from functools import partial
from typing import Any, Final
from unittest import mock

from msgspec.structs import replace

from holdfast.asl import distributed, machine, processing, reading, retrying
from holdfast.asl.definition import Catcher, Retrier
from holdfast.asl.errors import ALL, StatesError
from holdfast.asl.events import History, Trail
from holdfast.asl.frames import Cursor, Frame
from holdfast.asl.orders import Child, MapCursor, Tolerance
from holdfast.asl.progress import Progress
from holdfast.asl.retrying import Again
from holdfast.asl.states import mapping, parallel
from holdfast.asl.workflow import MachineWorkflow

Plant = Callable[[], AbstractContextManager[object]]

another_attempt, catcher_of, combined = retrying.another_attempt, retrying.catcher_of, processing.combined
inner, together, cursor_of, matches = parallel.inner, parallel.together, machine._cursor, retrying.matches
exceeded, too_much, in_force = Tolerance.exceeded, Progress.too_much, distributed.concurrency_in_force
map_cursor = Progress.cursor


def in_place_of(where: Any, name: str, planted: Any) -> Plant:
    return partial(mock.patch.object, where, name, planted)


def shared_count(
    retriers: Sequence[Retrier], error: StatesError, attempts: tuple[int, ...], chance: Any
) -> Again | None:
    """All retriers of a state count together."""
    again = another_attempt(retriers, error, attempts, chance)
    return None if again is None else replace(again, attempts=(sum(again.attempts),) * len(retriers))


def last_catcher(catchers: Sequence[Catcher], error: StatesError) -> tuple[int, Catcher] | None:
    """Of the catchers that match, the last one takes the error."""
    return catcher_of(catchers[::-1], error)


def catches_all(names: Sequence[str], error: StatesError) -> bool:
    """``States.ALL`` stands for ``States.Runtime`` too."""
    return ALL in names or matches(names, error)


def only_result(path: Any, whole: Any, result: Any) -> Any:
    """A ``ResultPath`` keeps nothing of the input."""
    return combined(path, {}, result)


async def reversed_results(*given: Any) -> Any:
    """Results come in another order than branches and iterations."""
    return (await together(*given))[::-1]


async def one_more(starts: Any, limit: int, *more: Any) -> Any:
    """One more than the limit at a time."""
    return await together(starts, limit + 1, *more)


def without_variables(*given: Any, **context: Any) -> Frame:
    """A branch does not see the variables around it."""
    return replace(inner(*given, **context), variables={})


def as_if_top(*given: Any, **context: Any) -> Frame:
    """A branch may continue as new."""
    return replace(inner(*given, **context), is_top=True)


def forgetting(**forgotten: Any) -> Callable[..., Cursor]:
    """A continuation as new loses something."""
    return lambda *given, **more: replace(cursor_of(*given, **more), **forgotten)


def counting_twice(*given: Any, **more: Any) -> Cursor:
    """A continuation as new counts the attempts before it again."""
    cursor = cursor_of(*given, **more)
    return replace(cursor, attempts=tuple(2 * count for count in cursor.attempts))


def steady(retrier: Retrier, _retries: int) -> float:
    """Delays do not grow."""
    return float(retrier.interval_seconds)


def one_failure_less(tolerance: Tolerance, failed: int, items: int) -> bool:
    """A Map run tolerates one failure less than it is told to."""
    return failed > 0 and exceeded(tolerance, failed + 1, items)


def one_further(progress: Progress, place: int) -> MapCursor:
    """A Map run that continues as new leaves an item out."""
    return map_cursor(progress, place + 1)


def without_origins(progress: Progress) -> StatesError | None:
    """A Map run that fails does not say which children have failed, so that a redrive tries none of them again."""
    error = too_much(progress)
    return None if error is None else StatesError(error.error, error.cause)


PLANTS: Final[dict[str, Plant]] = {
    "retriers share one count": in_place_of(machine, "another_attempt", shared_count),
    "delays do not grow": in_place_of(retrying, "delay_seconds", steady),
    "the last catcher takes the error": in_place_of(machine, "catcher_of", last_catcher),
    "States.ALL catches States.Runtime": in_place_of(retrying, "matches", catches_all),
    "a caught error replaces the input": in_place_of(processing, "combined", only_result),
    "outputs of branches are in another order": in_place_of(parallel, "together", reversed_results),
    "outputs of iterations are in another order": in_place_of(mapping, "together", reversed_results),
    "one iteration too many at a time": in_place_of(mapping, "together", one_more),
    "branches do not see variables": in_place_of(parallel, "inner", without_variables),
    "a branch continues as new": in_place_of(parallel, "inner", as_if_top),
    "a continuation forgets variables": in_place_of(machine, "_cursor", forgetting(variables="{}")),
    "a continuation counts retries twice": in_place_of(machine, "_cursor", counting_twice),
    "a continuation forgets redrives": in_place_of(machine, "_cursor", forgetting(redrives=0)),
    "a continuation forgets the start": in_place_of(machine, "replace", lambda cursor, **_changes: cursor),
    "redrives are not counted": in_place_of(machine, "History", lambda count, _redrives: History(count)),
    "a redrive rewrites the history": in_place_of(reading, "joined", lambda attempts, _redrives: list(attempts[-1])),
    "a call of a machine is told apart by its definition": in_place_of(
        MachineWorkflow, "given", lambda _, input: input
    ),
    "nothing tells of aborted states": in_place_of(Trail, "abort", lambda _trail: None),
    "a Map run tolerates one failure less": in_place_of(Tolerance, "exceeded", one_failure_less),
    "a Map run forgets its failures as it continues": in_place_of(
        Progress, "cursor", lambda _progress, n: MapCursor(n)
    ),
    "a Map run skips an item as it continues": in_place_of(Progress, "cursor", one_further),
    "a failed Map run has no origins": in_place_of(Progress, "too_much", without_origins),
    "Map runs share their children": in_place_of(Child, "name", property(lambda child: str(child.index))),
    "one child too many at a time": in_place_of(distributed, "concurrency_in_force", lambda asked: in_force(asked) + 1),
    "express children have no limit": in_place_of(distributed, "EXPRESS_SECONDS", 10**6),
}
