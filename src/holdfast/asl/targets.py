"""What the work of a Task can be mapped to: functions and steps, workflows, machines, and code of the body itself."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable
from typing import Any, Final, cast

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from holdfast.asl.jsontext import compact
from holdfast.asl.resources import Limits, resource_of
from holdfast.bounded import Bounded
from holdfast.codec.signature import Signature
from holdfast.errors import ConfigurationError, StepTimeout
from holdfast.functions import told
from holdfast.keys import LONGEST_NAME_CHARACTERS
from holdfast.replay.activation import Activation
from holdfast.replay.naming import escaped
from holdfast.retry import Retry
from holdfast.workflows.declared import StepPolicy
from holdfast.workflows.definition import Step, Workflow
from holdfast.workflows.operations.step import call_step

Function = Callable[..., Any]

_StepKey = tuple[int, str, Limits]

KEPT_STEPS: Final = 1_024
"""How many steps of tasks are kept: paths may set other limits at each attempt."""

ONE_ATTEMPT = Retry(max_attempts=1)
"""A step of a Task is attempted once: what follows an error is the machine's ``Retry`` and ``Catch``."""


class Mock(Struct, frozen=True):
    """Stands for a task as a whole, whatever its resource and pattern: what ``function`` answers is the result."""

    function: Function


class InBody(Struct, frozen=True):
    """A coroutine function that runs in the body of the machine, not as a step: ``hf.asl.InBody(reserve)``.

    It gets the task's input, and may do what a workflow body may: call actors and workflows, publish, send, sleep.
    """

    function: Callable[[Any], Awaitable[Any]]


class Nested:
    """A state machine, which does a task as an execution of its own: a child of the one that has the Task."""

    __slots__ = ()

    async def nested(self, given: Any) -> Any:
        """Run it in the body of another machine, and answer its output. Raises ``StatesError`` as it failed."""
        raise NotImplementedError


Target = Function | Step[..., Any] | Workflow[..., Any] | Mock | InBody | Nested


def check_target(key: str, target: Any) -> None:
    """Raise ``ConfigurationError`` unless the target can do the work of a Task."""
    if isinstance(target, Step) and cast("Step[..., Any]", target).policy.transactional:
        raise ConfigurationError(
            f"tasks[{key!r}] is a transactional step, which gets the SQL cursor and no input of a state: map an InBody "
            "that calls it"
        )
    if not isinstance(target, Mock | InBody | Step | Nested) and not callable(target):
        raise ConfigurationError(
            f"tasks[{key!r}] is a function, a step, a workflow, a state machine or an InBody, not {told(target)}"
        )


class Performer:
    """Does the work of tasks. The step of a target is made once, not for each attempt: reading its signature costs more
    than all else that an attempt of a quick task does.
    """

    def __init__(self) -> None:
        self._steps: Bounded[_StepKey, tuple[Any, Step[..., Any]]] = Bounded(KEPT_STEPS)

    async def done(self, activation: Activation, target: Any, resource: str, given: Any, limits: Limits) -> Any:
        """Do the work, as an operation of the body, and answer its result as plain JSON. Raises what it raises."""
        match target:
            case Workflow():
                return await _in_time(_child(cast("Workflow[..., Any]", target), given), limits)
            case Nested():
                return await _in_time(target.nested(given), limits)
            case InBody():
                return _plain(await _in_time(target.function(given), limits))
            case _:
                return await call_step(activation, self._step(target, resource, limits), (compact(given),), {})

    def _step(self, target: Any, resource: str, limits: Limits) -> Step[..., Any]:
        key = (id(target), resource, limits)  # an id is taken by no other target while the entry keeps this one
        found = self._steps.use(key)
        if found is None:
            found = self._steps[key] = (target, step_for(target, resource, limits))
        return found[1]


async def _child(workflow: Workflow[..., Any], given: Any) -> Any:
    args, kwargs = _arguments(workflow.signature, compact(given))
    result = await workflow(*args, **kwargs)
    return msgspec.json.decode(workflow.signature.result.encode(result))


async def _in_time(work: Awaitable[Any], limits: Limits) -> Any:
    limit = asyncio.timeout(limits.timeout_seconds)
    try:
        async with limit:
            return await work
    except TimeoutError as error:
        if limit.expired():
            raise StepTimeout(f"the task took more than {limits.timeout_seconds} s") from error
        raise


def _plain(value: Any) -> Any:
    return msgspec.json.decode(msgspec.json.encode(value))


def step_for(target: Any, resource: str, limits: Limits) -> Step[..., Any]:
    """What is mapped for a resource, as a step of one attempt that takes the input as JSON text."""
    own = target.policy if isinstance(target, Step) else StepPolicy()
    policy = replace(
        own,
        retry=ONE_ATTEMPT,
        at_most_once=bool(own.at_most_once),
        timeout_seconds=own.timeout_seconds if limits.timeout_seconds is None else limits.timeout_seconds,
        heartbeat_seconds=own.heartbeat_seconds if limits.heartbeat_seconds is None else limits.heartbeat_seconds,
    )
    name = escaped(resource_of(resource).name)[:LONGEST_NAME_CHARACTERS]
    if isinstance(target, Step):
        return Step(_of_step(cast("Step[..., Any]", target)), name=name, policy=policy)
    return Step(_taking_json(target.function if isinstance(target, Mock) else target), name=name, policy=policy)


def _taking_json(function: Function) -> Function:
    """The function with its one argument as JSON text, which keeps the order of fields."""
    if inspect.iscoroutinefunction(function):

        async def perform(given: str) -> Any:
            return await function(msgspec.json.decode(given))

        return perform

    def perform_blocking(given: str) -> Any:
        return function(msgspec.json.decode(given))

    return perform_blocking


def _of_step(step: Step[..., Any]) -> Function:
    """The function of a step, with its arguments and its result as its type hints have them."""
    signature, function = step.signature, step.function
    if step.is_async:

        async def perform(given: str) -> Any:
            args, kwargs = _arguments(signature, given)
            return msgspec.json.decode(signature.result.encode(await function(*args, **kwargs)))

        return perform

    def perform_blocking(given: str) -> Any:
        args, kwargs = _arguments(signature, given)
        return msgspec.json.decode(signature.result.encode(function(*args, **kwargs)))

    return perform_blocking


def _arguments(signature: Signature, given: str) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The arguments of a call: the whole input for one parameter, the fields of the input for several."""
    if signature.accepts_nothing:
        return (), {}
    if signature.parameter_count == 1:
        return signature.unbind(signature.parse_argument(given))
    return signature.unbind(signature.parse(given))
