"""A tested state, run: the same processing as in an execution, with its work mocked or done by one call."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Final, cast

from msgspec import UNSET, Struct

from holdfast.asl import processing
from holdfast.asl.definition import Choice, Fail, Map, Parallel, Pass, State, Succeed, Task, Wait
from holdfast.asl.definition.states import Working
from holdfast.asl.errors import EXCEED_TOLERATED_FAILURE_THRESHOLD, StatesError
from holdfast.asl.jsontext import compact
from holdfast.asl.maps.batches import Batcher, batched
from holdfast.asl.maps.items import Item, items_of, selected
from holdfast.asl.maps.settings import concurrency_of, tolerance_of
from holdfast.asl.orders import Tolerance
from holdfast.asl.processing import Left
from holdfast.asl.retrying import another_attempt, catcher_of
from holdfast.asl.states.choosing import chosen
from holdfast.asl.states.failing import failure
from holdfast.asl.states.passing import passed
from holdfast.asl.states.waiting import seconds_of
from holdfast.asl.teststate.mocks import result_of
from holdfast.asl.teststate.refusal import Refused
from holdfast.asl.teststate.request import Request, json_of
from holdfast.asl.visit import Visit

Perform = Callable[[Task, Any], Awaitable[Any]]
"""Does the work of a Task that has no mock: gets the state and its effective input. Raises ``StatesError``."""

TOLERANCES: Final = ("toleratedFailureCount", "toleratedFailurePercentage")
THRESHOLD_EXCEEDED: Final = "The specified tolerated failure threshold was exceeded"


class StateOutcome(Struct, frozen=True):
    """What became of the state. ``status`` is ``SUCCEEDED``, ``FAILED``, ``RETRIABLE`` or ``CAUGHT_ERROR``.

    ``inspection`` has each stage of the state's data under AWS's name for it; it is empty for the level ``INFO``.
    """

    status: str
    output: Any = None
    error: str | None = None
    cause: str | None = None
    next_state: str | None = None
    inspection: dict[str, Any] = {}


async def run(request: Request, visit: Visit, perform: Perform | None) -> StateOutcome:
    """Run the state of a visit. Raises ``Refused`` for a mock that does not fit it."""
    try:
        left = await ended(request, visit, perform)
    except StatesError as error:
        return handled(request, visit, error)
    return succeeded(visit, left, "SUCCEEDED")


async def ended(request: Request, visit: Visit, perform: Perform | None) -> Left:
    """How the state is left. Raises ``StatesError``."""
    match visit.state:
        case Pass() | Succeed():
            return passed(visit)
        case Choice():
            return chosen(visit)
        case Fail():
            raise failure(visit)
        case Wait():
            effective = processing.effective_input(visit)
            seconds_of(visit, effective)
            return processing.left(visit, effective)
        case Map():
            return await mapped(request, visit)
        case Task() | Parallel():
            effective = processing.effective_input(visit)
            given = processing.arguments(visit, effective)
            result = await worked(request, visit.state, given, perform)
            visit.note("result", result)
            return processing.left(visit, effective, result)


async def worked(request: Request, state: State, given: Any, perform: Perform | None) -> Any:
    """The result of the state's work: the mock's, or that of a call."""
    if request.mock is not None:
        if (error := request.mock.error_output) is not None:
            raise StatesError(error.error, error.cause)
        return result_of(request.mock, state)
    if perform is None:
        told = "give it a mock of its result or error, or `perform`, which does its work"
        raise Refused(f"state {state.name!r} is a Task that nothing does here: {told}")
    return await perform(cast("Task", state), given)


async def mapped(request: Request, visit: Visit) -> Left:
    """How a Map is left whose iterations are mocked as a whole."""
    state = cast("Map", visit.state)
    effective = processing.effective_input(visit)
    items = await items_in(request, visit, effective)
    concurrency_of(visit, effective)
    tolerance = tolerance_of(visit, effective)
    inputs = [(item, selected(visit, effective, item)) for item in items]
    if state.item_selector is not UNSET:
        visit.note("afterItemSelector", [given for _, given in inputs])
    if state.item_batcher is not None:
        batches = list(batched(inputs, Batcher.of(visit, effective, state.item_batcher)))
        visit.note(
            "afterItemBatcher", [{**each, "Items": [compact(item) for item in each["Items"]]} for each in batches]
        )
    check_failures(request, tolerance, len(items))
    result = await worked(request, state, effective, None)
    visit.note("result", result)
    return processing.left(visit, effective, result)


async def items_in(request: Request, visit: Visit, effective: Any) -> list[Item]:
    """The items of a Map: what its reader is said to find, or those of its input."""
    data = request.state_configuration.map_item_reader_data
    if data is None or cast("Map", visit.state).item_reader is None:
        return await items_of(visit, effective)
    found = json_of(data, "mapItemReaderData", "ValidationException")
    if isinstance(found, dict):
        return [Item(index, value, key) for index, (key, value) in enumerate(cast("dict[str, Any]", found).items())]
    return [Item(index, value) for index, value in enumerate(found)]


def check_failures(request: Request, tolerance: Tolerance, count: int) -> None:
    """Fail the Map if more of its iterations failed than it tolerates. Without a tolerance AWS lets any number pass."""
    failed = request.state_configuration.map_iteration_failure_count
    if failed is None:
        return
    if failed > count:
        raise Refused("Map iteration failure count must be less than or equal to the number of Map iterations")
    tolerant = tolerance.count is not None or tolerance.percentage is not None
    mocked_error = request.mock is not None and request.mock.error_output is not None
    if tolerant and not mocked_error and tolerance.exceeded(failed, count):
        raise StatesError(EXCEED_TOLERATED_FAILURE_THRESHOLD, THRESHOLD_EXCEEDED)


def handled(request: Request, visit: Visit, error: StatesError) -> StateOutcome:
    """What follows an error: another attempt, a catcher, or the end."""
    state = visit.state
    told = {"error": error.error, "cause": error.cause}
    if isinstance(state, Working):
        attempts = (request.state_configuration.retrier_retry_count,) * len(state.retry)
        if (again := another_attempt(state.retry, error, attempts, lambda: 1.0)) is not None:
            details = {"retryIndex": again.index, "retryBackoffIntervalSeconds": int(again.delay_seconds)}
            return StateOutcome("RETRIABLE", **told, inspection=shown(visit, errorDetails=details))
        if (found := catcher_of(state.catch, error)) is not None:
            place, catcher = found
            try:
                left = processing.caught(visit, catcher, error)
            except StatesError as worse:
                return StateOutcome("FAILED", error=worse.error, cause=worse.cause, inspection=shown(visit))
            inspection = shown(visit, errorDetails={"catchIndex": place}, **variables_of(visit, left))
            return StateOutcome("CAUGHT_ERROR", left.output, **told, next_state=left.next, inspection=inspection)
    return StateOutcome("FAILED", **told, inspection=shown(visit))


def succeeded(visit: Visit, left: Left, status: str) -> StateOutcome:
    """The state was left without an error."""
    inspection = shown(visit, **variables_of(visit, left))
    return StateOutcome(status, left.output, next_state=left.next, inspection=inspection)


def variables_of(visit: Visit, left: Left) -> dict[str, Any]:
    """The variables after the state, if there are any."""
    variables = {**visit.variables, **left.assigned}
    return {"variables": variables} if variables else {}


def shown(visit: Visit, **more: Any) -> dict[str, Any]:
    """The inspection, with what AWS shows of a state of this kind."""
    stages = {"input": visit.input, **(visit.inspection or {}), **more}
    if isinstance(visit.state, Pass) and "result" in stages:
        stages["afterResultSelector"] = stages["result"]
    unset = {name for name in TOLERANCES if stages.get(name) is None}
    return {name: value for name, value in stages.items() if name not in hidden(visit.state) | unset}


def hidden(state: State) -> frozenset[str]:
    """The stages that AWS does not show of a state, though it has them."""
    match state:
        case Pass() if state.result is not UNSET:
            return frozenset({"afterInputPath", "afterParameters"})
        case Pass():
            return frozenset({"result"})
        case Parallel():
            return frozenset({"afterInputPath", "afterParameters", "afterArguments", "result"})
        case Map():
            return frozenset({"afterParameters", "afterItems", "result"})
        case _:
            return frozenset()
