"""Which mocks TestState takes for which state, and what the result of one has to be."""

from __future__ import annotations

from typing import Any, Final

from holdfast.asl.definition import Map, Parallel, State, Task
from holdfast.asl.jsontext import NotJson, read
from holdfast.asl.quotas import LARGEST_PAYLOAD_BYTES
from holdfast.asl.resources import REQUEST_RESPONSE, SYNC, is_activity, resource_of
from holdfast.asl.teststate.contexts import waits
from holdfast.asl.teststate.refusal import DEFINITION, INPUT, Refused
from holdfast.asl.teststate.request import Mock, Request
from holdfast.asl.teststate.shapes import check_result
from holdfast.asl.validation.kinds import is_list, is_object

SUPPORTED: Final = "[Task, Wait, Pass, Succeed, Fail, Choice]"


def check_fields(request: Request) -> None:
    """Refuse what contradicts itself in a request, whatever its state is."""
    mock = request.mock
    if mock is None:
        if request.state_configuration.map_iteration_failure_count is not None:
            raise Refused("TestState does not support MapIterationFailureCount when a mock is not specified.")
        return
    if (mock.result is None) == (mock.error_output is None):
        raise Refused("A test mock should have only one of the following fields: [result, errorOutput].")
    if request.reveal_secrets:
        raise Refused("TestState does not support RevealSecrets when a mock is specified.")


def check_sizes(request: Request) -> None:
    """Refuse an input, and a result of a mock, that no state of AWS could have."""
    if len(request.input.encode(errors="replace")) > LARGEST_PAYLOAD_BYTES:
        raise Refused(f"Invalid State Input: it is over {LARGEST_PAYLOAD_BYTES} bytes", INPUT)
    result = None if request.mock is None else request.mock.result
    if result is not None and len(result.encode(errors="replace")) > LARGEST_PAYLOAD_BYTES:
        raise Refused(f"Mocked result must have at most {LARGEST_PAYLOAD_BYTES} bytes")


def check_state(request: Request, state: State) -> None:
    """Refuse a state that needs a mock and has none, and one that takes none."""
    kind = type(state).__name__
    mockable = isinstance(state, Task | Map | Parallel)
    if request.mock is not None and not mockable:
        raise Refused(f"State type '{kind}' is not supported when a mock is specified")
    if request.mock is not None:
        if isinstance(state, Map) and state.item_reader is not None:
            check_reader(request)
        return
    if isinstance(state, Map | Parallel):
        told = f"TestState API does not support Map or Parallel states. Supported state types include: {SUPPORTED}"
        raise Refused(told, DEFINITION)
    if isinstance(state, Task) and waits(state):
        told = "TestState API does not support '.sync' or '.waitForTaskToken' integration patterns."
        raise Refused(told, DEFINITION)
    if isinstance(state, Task) and is_activity(state.resource):
        told = f"TestState API does not support the resource {state.resource} unless a mock is specified"
        raise Refused(told, DEFINITION)


def check_reader(request: Request) -> None:
    """Refuse a Map whose reader would have to read: nothing is read in a test."""
    if request.state_configuration.map_item_reader_data is None:
        raise Refused("ItemReader data must be specified when testing a Map state with ItemReader specified.")


def result_of(mock: Mock, state: State) -> Any:
    """The result that a mock stands for, if it is one that the state can have. Raises ``Refused``."""
    try:
        result = read(mock.result or "null")
    except NotJson as error:
        raise Refused("Mocked result must be valid JSON") from error
    match state:
        case Map() if state.result_writer is not None:
            if not is_object(result):
                raise Refused("Mocked result must be a JSON object.")
        case Map() | Parallel():
            if not is_list(result):
                raise Refused("Mocked result must be an array.")
            if isinstance(state, Parallel) and len(result) != len(state.branches):
                raise Refused("Mocked result must contain the same number of items as number of Parallel branches.")
        case Task():
            resource = resource_of(state.resource)
            if result is not None and resource.call and resource.pattern in {REQUEST_RESPONSE, SYNC}:
                check_result(resource, result, mock.field_validation_mode)
        case _:
            pass
    return result
