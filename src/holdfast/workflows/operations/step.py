"""Steps: recorded calls of the user's functions. The body half asks, the live half performs one attempt at a time."""

from __future__ import annotations

import asyncio
import contextvars
import inspect
import threading
from collections.abc import Callable, Coroutine, Mapping, Sequence
from functools import partial
from random import Random
from typing import TYPE_CHECKING, Any

from msgspec import Raw, Struct

from holdfast import ids
from holdfast.codec.typed import codec_for
from holdfast.containment import contained, contained_call
from holdfast.errors import ConfigurationError, InvalidInput, StepInterrupted, StepTimeout
from holdfast.failure import describe
from holdfast.kernel.entries import Intended, Progressed, Tried
from holdfast.kernel.program import AnyEffect, Arrival, Effect, SqlEffect
from holdfast.workflows.live import Live
from holdfast.workflows.saga import Covered, current_saga
from holdfast.workflows.scope import StepInfo, step_scope

if TYPE_CHECKING:
    from holdfast.kernel.activation import Activation
    from holdfast.kernel.requests import Operation
    from holdfast.ports import SqlCursor
    from holdfast.workflows.definition import Step


async def call_step(
    activation: Activation, step: Step[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> Any:
    """The body half: ask for the step, wait for its recorded outcome, and remember its undo if a saga is open."""
    fingerprint = ids.fingerprint(step.signature.fingerprint_bytes(args, kwargs))
    args, kwargs = step.signature.snapshot(args, kwargs)
    operation = activation.request(
        "step",
        step.name,
        CallStep(step, args, kwargs),
        fingerprint=fingerprint,
        decode=step.signature.result.decode,
    )
    saga, undo = current_saga.get(), step.undone_by
    if saga is None or undo is None:
        return await operation

    def call_undo(result: Any) -> Coroutine[Any, Any, Any]:
        return call_step(activation, undo.step, () if undo.step.signature.accepts_nothing else (result,), {})

    return await saga.cover(Covered(operation, undo.step.name, call_undo, undo.ambiguous))


class CallStep(Struct, frozen=True):
    """Perform ``step`` with these arguments."""

    step: Step[..., Any]
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]

    def effect(self, operation: Operation, live: Live, /) -> AnyEffect:
        policy = self.step.policy
        if policy.transactional:
            return _sql_effect(self, operation, live)
        intent = Intended(operation.id, live.now_ms(), operation.fingerprint) if policy.at_most_once else None
        if policy.at_most_once and operation.id in live.intended:
            return Effect(operation.id, partial(_interrupted, self, operation, live))
        if intent is not None:
            live.intended[operation.id] = intent
        return Effect(operation.id, partial(_attempt, self, operation, live), intent)

    def withdrawn(self, _operation: Operation, _live: Live, /) -> Sequence[AnyEffect]:
        return ()


async def _interrupted(command: CallStep, operation: Operation, live: Live) -> Arrival:
    error = StepInterrupted(
        f"step {command.step.name!r} is at most once, and a process died after starting it: it may or may not have "
        "taken effect. Find out, and go on from there"
    )
    return live.failed(operation, error)


async def _attempt(command: CallStep, operation: Operation, live: Live) -> Arrival:
    step = command.step
    tried = live.tried.get(operation.id)
    attempt = 1 if tried is None else tried.attempt + 1
    began = live.now_ms()
    try:
        result = await contained(_invoke(command, operation, live, attempt))
        data, copy = step.signature.result.copy(result, f"the result of step {step.name!r}", live.limit_bytes)
    except Exception as error:  # noqa: BLE001 - whatever the user's code raises is the step's outcome
        return _failure(command, operation, live, error, attempt, began)
    return live.done(operation, data, copy=copy, attempts=attempt, began=began)


def _failure(
    command: CallStep, operation: Operation, live: Live, error: BaseException, attempt: int, began: int
) -> Arrival:
    policy = command.step.policy
    # InvalidInput: mostly a result that does not fit. Its effect has happened; another attempt would only repeat it.
    if policy.at_most_once or isinstance(error, InvalidInput) or not policy.retry.retries(error, attempt):
        return live.failed(operation, error, attempts=attempt, began=began)
    live.host.telemetry.emit("step_retried", partition=live.partition, op=operation.id, attempt=attempt)
    now = live.now_ms()
    delay = policy.retry.delay_seconds(attempt, Random(f"{live.record.secret}/{operation.id}/{attempt}"))
    tried = Tried(operation.id, now, attempt, describe(error), now + int(delay * 1000), operation.fingerprint)
    live.tried[operation.id] = tried
    return Arrival(tried)


async def _invoke(command: CallStep, operation: Operation, live: Live, attempt: int) -> Any:
    policy = command.step.policy
    pulse = _Pulse(operation, live)
    step_scope.set(
        StepInfo(
            idempotency_key=live.operation_key(operation.id),
            attempt=attempt,
            workflow=live.record.workflow,
            id=live.record.id,
            operation=operation.id,
            last_heartbeat=pulse.last(),
            fence=live.fence(),
            _beat=pulse.beat,
        )
    )
    try:
        if policy.timeout_seconds is None and policy.heartbeat_seconds is None:
            return await _call(command, live)
        return await _call_in_time(command, live, pulse)
    finally:
        pulse.stop()


async def _call_in_time(command: CallStep, live: Live, pulse: _Pulse) -> Any:
    step, policy = command.step, command.step.policy
    whole, silence = asyncio.timeout(policy.timeout_seconds), asyncio.timeout(policy.heartbeat_seconds)
    try:
        async with whole, silence:
            pulse.extend(silence, policy.heartbeat_seconds)
            return await _call(command, live)
    except TimeoutError as error:
        if silence.expired():
            raise StepTimeout(f"step {step.name!r} gave no heartbeat for {policy.heartbeat_seconds} s") from error
        if whole.expired():
            raise StepTimeout(f"step {step.name!r} took more than {policy.timeout_seconds} s") from error
        raise


async def _call(command: CallStep, live: Live) -> Any:
    step = command.step
    if step.is_async:
        return await step.function(*command.args, **command.kwargs)
    context = contextvars.copy_context()
    call = partial(context.run, _called, step.function, *command.args, **command.kwargs)
    result = await asyncio.get_running_loop().run_in_executor(live.pool, call)
    return await result if inspect.isawaitable(result) else result  # a plain def around an async one


def _called(function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
    try:
        return contained_call(function, *args, **kwargs)  # a GeneratorExit in a future would end whoever awaits it
    except StopIteration as error:  # no future can carry it; a coroutine makes the same of it
        raise RuntimeError(f"the step raised {error!r}") from error


class _Pulse:
    """Heartbeats of one attempt, which may come from another thread."""

    __slots__ = ("_live", "_loop", "_operation", "_seconds", "_silence", "_stopped", "_thread")

    def __init__(self, operation: Operation, live: Live) -> None:
        self._operation = operation
        self._live = live
        self._loop = asyncio.get_running_loop()
        self._thread = threading.get_ident()
        self._silence: asyncio.Timeout | None = None
        self._seconds: float | None = None
        self._stopped = False

    def last(self) -> Any:
        details = self._live.progressed.get(self._operation.id)
        return None if details is None else codec_for(Any).decode(bytes(details))

    def extend(self, silence: asyncio.Timeout, seconds: float | None) -> None:
        self._silence, self._seconds = silence, seconds

    def beat(self, details: Any) -> None:
        data, _ = codec_for(Any).copy(
            details, f"the heartbeat of step {self._operation.command.step.name!r}", self._live.limit_bytes
        )
        if threading.get_ident() == self._thread:
            self._record(Raw(data))
        else:
            self._loop.call_soon_threadsafe(self._record, Raw(data))

    def stop(self) -> None:
        self._stopped = True

    def _record(self, details: Raw) -> None:
        if self._stopped:  # a thread whose attempt is over, still running
            return
        if self._silence is not None and self._seconds is not None and not self._silence.expired():
            self._silence.reschedule(self._loop.time() + self._seconds)
        self._live.progressed[self._operation.id] = details
        self._live.report(Progressed(self._operation.id, self._live.now_ms(), details))


def _sql_effect(command: CallStep, operation: Operation, live: Live) -> AnyEffect:
    step = command.step
    if live.host.home.transactions is None:
        return Effect(operation.id, lambda: _without_transactions(step, operation, live))

    def work(cursor: SqlCursor) -> Arrival:
        began = live.now_ms()
        result = _called(step.function, cursor, *command.args, **command.kwargs)
        data, copy = step.signature.result.copy(result, f"the result of step {step.name!r}", live.limit_bytes)
        return live.done(operation, data, copy=copy, began=began)

    def failed(error: Exception) -> Arrival:
        tried = live.tried.get(operation.id)
        attempt = 1 if tried is None else tried.attempt + 1
        return _failure(command, operation, live, error, attempt, live.now_ms())

    return SqlEffect(operation.id, work, failed)


async def _without_transactions(step: Step[..., Any], operation: Operation, live: Live) -> Arrival:
    told = f"step {step.name!r} is transactional, which needs a SQLite home, not {live.host.home.url}"
    return live.failed(operation, ConfigurationError(told))
