"""One state by itself, as TestState of Step Functions runs it: with a mock of its work, and each stage of its data.

tested = await hf.asl.test_state(definition, state="Pay", input={"cart": 7}, mock={"result": {"paid": True}})
assert (tested.status, tested.next_state) == ("SUCCEEDED", "Ship")
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from holdfast.asl.definition import Task
from holdfast.asl.jsontext import compact, is_object, written
from holdfast.asl.randomness import seeded
from holdfast.asl.sources import definition_of
from holdfast.asl.teststate.contexts import given_context, made_context
from holdfast.asl.teststate.mocks import check_fields, check_sizes, check_state, result_of
from holdfast.asl.teststate.refusal import VALIDATION, Refused
from holdfast.asl.teststate.request import Level, Request, json_of, request_of, state_in
from holdfast.asl.teststate.running import Perform, StateOutcome, run
from holdfast.asl.validation import Profile
from holdfast.asl.visit import Visit
from holdfast.clock import Clock, SystemClock
from holdfast.ids import new_id

__all__ = ["Perform", "Refused", "StateOutcome", "answer", "test_state"]

BOUND_BY_ANY_NAME = Profile(aws=False)
"""Resources need not be ARNs: a state is tested here, and not on AWS."""
NUMBERS = frozenset({"maxConcurrency", "toleratedFailureCount", "toleratedFailurePercentage", "errorDetails"})
"""The fields of an inspection that are no JSON text."""


async def test_state(  # noqa: PLR0913 - the fields of AWS's request, each named by its caller
    definition: str | Path | Mapping[str, Any],
    *,
    state: str | None = None,
    input: Any = None,
    mock: Mapping[str, Any] | None = None,
    variables: Mapping[str, Any] | None = None,
    context: Mapping[str, Any] | None = None,
    configuration: Mapping[str, Any] | None = None,
    level: Level = "TRACE",
    perform: Perform | None = None,
) -> StateOutcome:
    """Run one state of a machine, or a definition that is a state itself, and answer what became of it.

    ``mock`` is ``{"result": …}`` or ``{"errorOutput": {"error": …, "cause": …}}``. ``configuration`` has AWS's fields,
    for example ``{"retrierRetryCount": 2}``. Without a mock a Task is done by ``perform``.

    Raises ``Refused``, an ``InvalidInput``, for what AWS refuses.
    """
    fields: dict[str, Any] = {
        "definition": definition_of(definition),
        "input": written({} if input is None else input),
        "inspectionLevel": level,
        "stateName": state,
        "stateConfiguration": dict(configuration or {}),
    }
    if mock is not None:
        fields["mock"] = {**mock, **({"result": written(mock["result"])} if "result" in mock else {})}
    if variables is not None:
        fields["variables"] = written(variables)
    if context is not None:
        fields["context"] = written(context)
    return await tested(request_of(fields), perform, BOUND_BY_ANY_NAME)


async def answer(fields: Mapping[str, Any], perform: Perform | None = None) -> dict[str, Any]:
    """The answer to a request in the form of AWS: JSON texts where AWS has them. Raises ``Refused``."""
    request = request_of(fields)
    check_sizes(request)
    outcome = await tested(request, perform if request.role_arn is not None else without_a_role, Profile())
    told: dict[str, Any] = {"status": outcome.status}
    if outcome.status in {"SUCCEEDED", "CAUGHT_ERROR"}:
        told["output"] = compact(outcome.output)
    named = {"error": outcome.error, "cause": outcome.cause, "nextState": outcome.next_state}
    told |= {name: value for name, value in named.items() if value is not None}
    if request.inspection_level != "INFO":
        told["inspectionData"] = {
            name: value if name in NUMBERS else compact(value) for name, value in outcome.inspection.items()
        }
    return told


async def without_a_role(_state: Task, _given: Any) -> Any:
    """AWS assumes a role for the work of a Task, so it refuses a request without one."""
    raise Refused("RoleArn must be specified when testing a Task state")


async def tested(
    request: Request, perform: Perform | None, profile: Profile, clock: Clock | None = None
) -> StateOutcome:
    """Run the state of a request. Raises ``Refused``."""
    check_fields(request)
    state = state_in(request, profile)
    check_state(request, state)
    if request.mock is not None and request.mock.result is not None:
        result_of(request.mock, state)
    value = json_of(request.input, "State Input")
    execution = new_id()
    now_ms = (clock or SystemClock()).now_ms()
    if request.context is None:
        context = made_context(request, state, value, now_ms, execution)
    else:
        context = given_context(request.context, state)
    variables = json_of(request.variables or "{}", "variables", VALIDATION)
    if not is_object(variables):
        raise Refused("Invalid variables: they must be an object")
    visit = Visit(state, value, context, variables, seeded(execution), now_ms, inspection={})
    outcome = await run(request, visit, perform)
    return outcome if request.inspection_level != "INFO" else replace(outcome, inspection={})
