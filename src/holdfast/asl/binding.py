"""Which code does a task: resources and states, mapped to steps and functions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any, cast

from holdfast.asl.definition import Machine, Map, Parallel, Processor, Task
from holdfast.asl.errors import (
    DATA_LIMIT_EXCEEDED,
    RUNTIME,
    TIMEOUT,
    Error,
    EvaluationError,
    HeartbeatMissed,
    StatesError,
)
from holdfast.asl.resources import Limits, Resource, is_activity, is_lambda, resource_of
from holdfast.asl.targets import Performer, check_target
from holdfast.codec.faults import NESTS_TOO_DEEP
from holdfast.errors import ConfigurationError, PayloadTooLarge, SerializationError, StepFailed, StepTimeout

if TYPE_CHECKING:
    from holdfast.asl.frames import Frame, Run
    from holdfast.asl.visit import Visit

NO_HEARTBEAT = "gave no heartbeat"


class Tasks:
    """The tasks of a machine: what does the work of each Task state."""

    def __init__(self, targets: Mapping[str, Any]) -> None:
        for key, target in targets.items():
            check_target(key, target)
        self._targets = dict(targets)
        self._performer = Performer()

    def check(self, machine: Machine, name: str) -> None:
        """Raise ``ConfigurationError`` if nothing is mapped for a Task of the machine."""
        for state in tasks_in(machine.processor):
            if self._target(state) is None and not self.offers(state.resource):
                resource = resource_of(state.resource)
                raise ConfigurationError(
                    f"state machine {name!r}: nothing is mapped for {state.resource!r}, the resource of state "
                    f"{state.name!r}. Give it a function: tasks={{{resource.name!r}: function}}; the key is the "
                    "resource, its last part, the state's name, or a pattern such as 'arn:aws:states:::sqs:*'"
                )

    def offers(self, resource: str) -> bool:
        """Whether a resource needs nothing that is mapped for it."""
        return is_activity(resource)

    def _target(self, state: Task) -> Any:
        resource = resource_of(state.resource)
        return self._mapped((state.name, resource.text, resource.call, resource.name), resource.text)

    def _mapped(self, keys: tuple[str, ...], text: str) -> Any:
        for key in keys:
            if key and key in self._targets:
                return self._targets[key]
        patterns = (target for key, target in self._targets.items() if "*" in key and fnmatchcase(text, key))
        return next(patterns, None)

    def lacking(self, _run: Run, resource: str, _state: str = "", /) -> BaseException:
        """What to raise for a resource that nothing is mapped for. No state is named if a Map reads or writes by it."""
        return EvaluationError(RUNTIME, _nothing_for(resource_of(resource)))

    def token(self, _run: Run, _frame: Frame, visit: Visit, /) -> str:
        """See ``Work``."""
        return visit.randomness.uuid()

    async def perform(self, run: Run, frame: Frame, visit: Visit, given: Any, limits: Limits, /) -> Any:
        """See ``Work``."""
        state = cast("Task", visit.state)
        resource = resource_of(state.resource)
        target = self._target(state)
        if target is None:
            raise self.lacking(run, state.resource, state.name)
        begin, end = _event_names(state.resource)
        frame.trail.note(f"{begin}Scheduled", resource=resource.text, parameters=given)
        frame.trail.note(f"{begin}Started")
        if resource.pattern:
            frame.trail.note("TaskSubmitted")
        run.pace.operations += 1
        try:
            result = await self._performer.done(run.activation, target, state.resource, given, limits)
        except Exception as error:
            failed = failure_of(error)
            frame.trail.note(
                f"{end}{'TimedOut' if failed.error == TIMEOUT else 'Failed'}", error=failed.error, cause=failed.cause
            )
            raise failed from error
        frame.trail.note(f"{end}Succeeded", output=result)
        return result

    async def call(self, run: Run, resource: str, given: Any, /) -> Any:
        """See ``Work``."""
        target = self._mapped((resource, resource_of(resource).call, resource_of(resource).name), resource)
        if target is None:
            raise self.lacking(run, resource)
        run.pace.operations += 1
        try:
            return await self._performer.done(run.activation, target, resource, given, Limits())
        except Exception as error:
            raise failure_of(error) from error


def tasks_in(processor: Processor) -> Iterator[Task]:
    """All Task states, those of branches and iterations too."""
    for state in processor.states.values():
        match state:
            case Task():
                yield state
            case Parallel(branches=branches):
                for branch in branches:
                    yield from tasks_in(branch)
            case Map(processor=Processor() as inner):
                yield from tasks_in(inner)
            case _:
                pass


def failure_of(error: Exception) -> StatesError:
    """How the error of a task looks to the machine: the name of its class, and its message."""
    match error:
        case StatesError():
            return error
        case Error(error=name, cause=cause):
            return StatesError(name, cause)
        case PayloadTooLarge():
            return StatesError(DATA_LIMIT_EXCEEDED, str(error))
        case SerializationError() if NESTS_TOO_DEEP in str(error):
            return StatesError(DATA_LIMIT_EXCEEDED, str(error))
        case StepTimeout():
            return HeartbeatMissed() if NO_HEARTBEAT in str(error) else StatesError(TIMEOUT)
        case StepFailed(error_type=name, error_message=message):
            return StatesError(name.rpartition(".")[2], message)
        case _:
            return StatesError(type(error).__name__, str(error))


def _nothing_for(resource: Resource) -> str:
    if is_activity(resource.text):
        return f"The activity {resource.text} does not exist."
    return f"Nothing is mapped for the resource {resource.text}."


def _event_names(resource: str) -> tuple[str, str]:
    if is_lambda(resource):
        return "LambdaFunction", "LambdaFunction"
    return ("Activity", "Activity") if is_activity(resource) else ("Task", "Task")
