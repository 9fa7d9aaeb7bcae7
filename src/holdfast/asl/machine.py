"""The machine: a deterministic workflow body that interprets a definition. Only tasks and waits reach the store."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, NoReturn

from msgspec import Struct
from msgspec.structs import replace

from holdfast.asl import processing
from holdfast.asl.definition import Choice, Fail, Machine, Map, Parallel, Pass, State, Succeed, Task, Wait
from holdfast.asl.definition.states import Working
from holdfast.asl.ending import told_of
from holdfast.asl.errors import DATA_LIMIT_EXCEEDED, QUERY_EVALUATION_ERROR, Error, EvaluationError, StatesError
from holdfast.asl.events import History, Trail
from holdfast.asl.frames import Bounds, Cursor, Frame, Pace, Run
from holdfast.asl.jsontext import compact
from holdfast.asl.processing import Left
from holdfast.asl.randomness import Randomness
from holdfast.asl.retrying import another_attempt, catcher_of
from holdfast.asl.states import choosing, failing, mapping, parallel, passing, tasks, waiting
from holdfast.asl.timestamps import iso_milliseconds
from holdfast.asl.tokens import Renewed
from holdfast.asl.visit import Visit
from holdfast.errors import PayloadTooLarge
from holdfast.failure import describe
from holdfast.replay.naming import place

if TYPE_CHECKING:
    from holdfast.asl.frames import Maps, Work
    from holdfast.asl.quotas import Quota
    from holdfast.replay.activation import Activation


class Continue(BaseException):
    """The execution goes on as a new run, from here. It is no error, so nothing catches it."""

    def __init__(self, cursor: Cursor) -> None:
        super().__init__(cursor)
        self.cursor = cursor


class Program(Struct, frozen=True):
    """What an execution runs: the machine that it began with, and today's tasks."""

    machine: Machine
    tasks: Work
    maps: Maps
    quota: Quota
    bounds: Bounds = Bounds()

    def run(self, activation: Activation, history: History) -> Run:
        """A run of it, at its beginning."""
        return Run(
            activation=activation,
            tasks=self.tasks,
            maps=self.maps,
            history=history,
            randomness=Randomness(lambda: activation.random),
            pace=Pace(self.bounds),
            quota=self.quota,
            branch=_run_frame,
            visits={},
        )


def first_cursor(machine: Machine, input: str, started_ms: int) -> Cursor:
    """Where an execution begins."""
    return Cursor(state=machine.processor.start_at, input=input, started_ms=started_ms)


async def run_machine(
    program: Program,
    activation: Activation,
    identity: Mapping[str, Any],
    cursor: Cursor,
    go_on: Callable[[Cursor], NoReturn],
) -> Any:
    """The output of the machine, from ``cursor`` on. Raises ``Error`` if it fails. If it is long it goes on as a new
    run by ``go_on``, and raises what that raises.
    """
    history = History(cursor.events, lambda: cursor.redrives + activation.past.retries)
    trail = Trail(history, cursor.last_event)
    run = program.run(activation, history)
    frame = Frame(program.machine.processor, "", json.loads(cursor.variables), identity, trail, is_top=True)
    data = json.loads(cursor.input)
    if not history.count:
        trail.note("ExecutionStarted", input=data)
    try:
        output = await _run_frame(run, frame, data, cursor)
        run.quota.check_output(output)
    except Continue as going_on:
        _go_on(trail, replace(going_on.cursor, started_ms=cursor.started_ms), go_on)
    except StatesError as error:
        trail.note("ExecutionFailed", error=error.error, cause=error.cause)
        raise Error(error.error, error.cause) from error.__cause__  # by which a retry knows what failed
    except Exception as error:
        if activation.broken is None:  # else the execution does not end: it waits for code that fits
            name, cause = told_of(describe(error))
            trail.note("ExecutionFailed", error=name, cause=cause)
        raise
    trail.note("ExecutionSucceeded", output=output)
    return output


def _go_on(trail: Trail, cursor: Cursor, go_on: Callable[[Cursor], NoReturn]) -> NoReturn:
    try:
        go_on(cursor)
    except PayloadTooLarge as error:
        told = f"The execution has to continue as new and cannot: {error}"
        trail.note("ExecutionFailed", error=DATA_LIMIT_EXCEEDED, cause=told)
        raise Error(DATA_LIMIT_EXCEEDED, told) from error


async def _run_frame(run: Run, frame: Frame, data: Any, cursor: Cursor | None = None) -> Any:
    variables = dict(frame.variables)
    name = frame.processor.start_at if cursor is None else cursor.state
    while True:
        state = frame.processor.states[name]
        if cursor is None and frame.is_top and run.pace.is_due:
            raise Continue(_cursor(run, frame, state, data, variables))
        run.pace.states += 1
        path = run.visiting(frame, state)
        with place(path):
            left = await _Entered(run, frame, path, state, data, variables, cursor).visit()
        cursor = None
        data = left.output
        variables.update(left.assigned)
        if left.next is None:
            return data
        name = left.next


def _cursor(run: Run, frame: Frame, state: State, data: Any, variables: Mapping[str, Any], **more: Any) -> Cursor:
    return Cursor(
        state=state.name,
        input=compact(data),
        variables=compact(variables),
        events=run.history.count,
        last_event=frame.trail.last,
        redrives=run.history.redrives(),
        **more,
    )


class _Entered:
    """One visit of a state: its attempts, and what follows its errors."""

    def __init__(
        self,
        run: Run,
        frame: Frame,
        path: str,
        state: State,
        data: Any,
        variables: Mapping[str, Any],
        cursor: Cursor | None,
    ) -> None:
        self._run = run
        self._frame = frame
        self._path = path
        self._state = state
        self._data = data
        self._variables = variables
        self._kind = type(state).__name__
        frame.trail.within = self._kind
        resumed = cursor if cursor is not None and cursor.entered_event else None
        self._attempts: tuple[int, ...] = () if resumed is None else resumed.attempts
        self._retries = 0 if resumed is None else resumed.retries
        self._entered_ms = run.now_ms() if resumed is None else resumed.entered_ms
        self._event = (
            frame.trail.note(f"{self._kind}StateEntered", name=state.name, input=data)
            if resumed is None
            else resumed.entered_event
        )

    async def visit(self) -> Left:
        """Attempt it until it is left. Raises ``StatesError``."""
        while True:
            visit, since = self._visit(), self._frame.trail.last
            try:
                left = await _attempt(self._run, self._frame, visit, self._path)
                if left.output is not self._data:
                    self._run.quota.check(left.output, self._state.name)
                return self._exited(left)
            except Renewed:
                self._frame.trail.renew(since)
                continue
            except EvaluationError as error:
                failed = self._unevaluated(error)
            except StatesError as error:
                failed = error
            left_by = await self._after(failed, visit)
            if left_by is not None:
                return self._exited(left_by)

    def _unevaluated(self, error: EvaluationError) -> StatesError:
        if error.error == QUERY_EVALUATION_ERROR:
            told = {"state": self._state.name, "error": error.error, "cause": error.cause}
            self._frame.trail.note("EvaluationFailed", **told)
        return error.within(self._state.name, self._event)

    def _visit(self) -> Visit:
        entered = iso_milliseconds(self._entered_ms)
        state: dict[str, Any] = {"EnteredTime": entered, "Name": self._state.name}
        if isinstance(self._state, Working):
            state["RetryCount"] = self._retries
        return Visit(
            state=self._state,
            input=self._data,
            context={**self._frame.context, "Execution": self._execution(), "State": state},
            variables=self._variables,
            randomness=self._run.randomness,
            now_ms=self._run.now_ms(),
        )

    def _execution(self) -> Mapping[str, Any]:
        execution: Mapping[str, Any] = self._frame.context["Execution"]
        redrives = self._run.history.redrives()
        return {**execution, "RedriveCount": redrives} if redrives and "RedriveCount" in execution else execution

    async def _after(self, failed: StatesError, visit: Visit) -> Left | None:
        """What a catcher leads to, or ``None`` for another attempt. Raises the error if neither is there for it."""
        state = self._state
        if not isinstance(state, Working):
            raise failed
        again = another_attempt(state.retry, failed, self._attempts, self._run.activation.random.random)
        if again is not None:
            self._attempts = again.attempts
            self._retries += 1
            await waiting.pause(self._run, again.delay_seconds)
            if self._frame.is_top and self._run.pace.is_due:
                raise Continue(self._cursor())
            return None
        if isinstance(state, Parallel | Map):
            self._frame.trail.note(f"{self._kind}StateFailed", error=failed.error, cause=failed.cause)
        caught = catcher_of(state.catch, failed)
        if caught is None:
            raise failed
        try:
            return processing.caught(visit, caught[1], failed)
        except EvaluationError as error:
            raise self._unevaluated(error) from error

    def _cursor(self) -> Cursor:
        return _cursor(
            self._run,
            self._frame,
            self._state,
            self._data,
            self._variables,
            attempts=self._attempts,
            retries=self._retries,
            entered_ms=self._entered_ms,
            entered_event=self._event,
        )

    def _exited(self, left: Left) -> Left:
        details: dict[str, Any] = {"name": self._state.name, "output": left.output}
        if left.assigned:
            details["assignedVariables"] = left.assigned
        self._frame.trail.note(f"{self._kind}StateExited", **details)
        self._frame.trail.within = ""
        return left


async def _attempt(run: Run, frame: Frame, visit: Visit, path: str) -> Left:
    match visit.state:
        case Pass() | Succeed():
            return passing.passed(visit)
        case Choice():
            return choosing.chosen(visit)
        case Fail():
            raise failing.failure(visit)
        case Wait():
            return await waiting.waited(run, visit)
        case Task():
            return await tasks.performed(run, frame, visit)
        case Parallel():
            return await parallel.branched(run, frame, visit, path)
        case Map():
            return await mapping.mapped(run, frame, visit, path)


__all__ = ["Continue", "Program", "first_cursor", "run_machine"]
