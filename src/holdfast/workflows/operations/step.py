"""Steps: recorded calls of the user's functions. The body half asks, the live half performs one attempt at a time."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import inspect
import logging
import threading
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from random import Random
from typing import TYPE_CHECKING, Any

from msgspec import Raw, Struct
from msgspec.structs import replace

from holdfast import ids
from holdfast.clock import duration
from holdfast.codec.typed import codec_for
from holdfast.containment import contained, contained_call
from holdfast.errors import ConfigurationError, InvalidInput, StepInterrupted, StepTimeout
from holdfast.failure import describe
from holdfast.logs import log, told_error
from holdfast.replay.entries import AT_ONCE, STEP, Intended, Progressed, Tried
from holdfast.replay.program import AnyEffect, Arrival, Effect, SqlEffect, Timed
from holdfast.texts import printable
from holdfast.workflows.live import Live
from holdfast.workflows.operations.limited import LimitedCall, begin, leave
from holdfast.workflows.saga import covering
from holdfast.workflows.saga_ledger import Covered
from holdfast.workflows.scope import StepInfo, step_scope

if TYPE_CHECKING:
    from holdfast.failure import ErrorRecord
    from holdfast.flow.permits import Hold
    from holdfast.ports import SqlCursor
    from holdfast.replay.activation import Activation
    from holdfast.replay.requests import Operation
    from holdfast.workflows.declared import DeclaredStep
    from holdfast.workflows.threads import Seat


async def call_step(
    activation: Activation,
    step: DeclaredStep,
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
    id: str | None = None,
) -> Any:
    """The body half: ask for the step, wait for its recorded outcome, and remember its undo if a saga is open."""
    undo = step.undone_by
    saga = None if undo is None else await covering(step.name)
    operation = _ask(activation, step, args, kwargs, id)
    if saga is None or undo is None:
        return await operation

    async def call_undo(result: Any) -> Any:
        undo_args = () if undo.step.signature.accepts_nothing else (result,)
        undoing = _ask(activation, undo.step, undo_args, {}, None if id is None else f"{id}.undo")
        if (undone := activation.context.undone) is not None:
            undone[undoing.id] = operation.id
        while not undoing.done():
            with contextlib.suppress(asyncio.CancelledError):  # money is on its way
                await asyncio.wait({undoing})
        return undoing.result()

    return await saga.cover(Covered(saga, operation.id, operation, undo.step.name, call_undo, undo.ambiguous))


def _ask(
    activation: Activation, step: DeclaredStep, args: tuple[Any, ...], kwargs: Mapping[str, Any], id: str | None
) -> Operation:
    if step.unbound_of:
        step.refuse_unbound()
    fingerprint = ids.fingerprint(step.signature.fingerprint_bytes(args, kwargs))
    args, kwargs = step.signature.snapshot(args, kwargs)
    return activation.request(
        STEP,
        step.name,
        CallStep(step, args, kwargs),
        fingerprint=fingerprint,
        decode=step.signature.result.decode_steady,
        id=id,
    )


class CallStep(Struct, frozen=True, gc=False):
    """Perform ``step`` with these arguments."""

    step: DeclaredStep
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]

    def effect(self, operation: Operation, live: Live, /) -> AnyEffect:
        policy = self.step.policy
        if policy.transactional:
            return _sql_effect(self, operation, live)
        if policy.at_most_once or policy.limits or not self.step.is_async:
            return self._prepared(operation, live)
        return Effect(operation.id, partial(_attempted, self, operation, live))

    def _prepared(self, operation: Operation, live: Live) -> AnyEffect:
        """Before it begins it may need a thread, permits, or an intent that is recorded."""
        policy = self.step.policy
        intent = Intended(operation.id, live.now_ms(), operation.fingerprint) if policy.at_most_once else None
        if policy.at_most_once and live.notes_on(operation.id).intended:
            return Effect(operation.id, partial(_interrupted, self, operation, live))
        limited = self._limited(operation, live) if policy.limits else None
        waits = limited is not None and not limited.has_permits
        if policy.at_most_once and limited is not None and waits:
            return Effect(operation.id, limited.wait)
        begins = self.step.is_async or waits or live.threads.keep_now(live.partition, operation.id)
        if policy.at_most_once and not begins:
            return Effect(operation.id, partial(_wait_for_a_thread, operation, live))
        if intent is not None:
            live.amend(operation.id, intended=True)
        if limited is not None:
            return Effect(operation.id, partial(limited.perform, partial(_attempt, self, operation, live)), intent)
        attempt = partial(_attempted if self.step.is_async else _attempt_in_thread, self, operation, live)
        return Effect(operation.id, attempt, intent)

    def _limited(self, operation: Operation, live: Live) -> LimitedCall:
        return LimitedCall(self.step, self.args, self.kwargs, operation, live, partial(_failure, self, operation, live))

    def withdrawn(self, operation: Operation, live: Live, /) -> Sequence[AnyEffect]:
        live.threads.leave(live.partition, operation.id)
        if self.step.policy.limits:
            leave(self.step, operation, live)
        return ()


async def _interrupted(command: CallStep, operation: Operation, live: Live) -> Arrival:
    error = StepInterrupted(
        f"step {command.step.name!r} is at most once, and a process died after starting it: it may or may not have "
        "taken effect. Find out, and go on from there"
    )
    return live.failed(operation, error)


async def _wait_for_a_thread(operation: Operation, live: Live) -> Timed:
    """Record nothing of an at-most-once step before it can begin. Once a thread is kept for it, request it again."""
    await live.threads.keep(live.partition, operation.id)
    return Timed(live.now_ms(), operation.id)


async def _attempt_in_thread(command: CallStep, operation: Operation, live: Live) -> Arrival:
    seat = await live.threads.take_for(live.partition, operation.id)  # before the clock of this attempt begins
    try:
        return await _attempted(command, operation, live, seat)
    finally:
        seat.leave()


async def _attempt(command: CallStep, operation: Operation, live: Live, hold: Hold, seat: Seat | None) -> Arrival:
    """Perform one attempt. Its permits are valid: nothing is awaited before the user's code runs."""
    begin(hold, command.step, operation, live)
    try:
        return await _attempted(command, operation, live, seat)
    finally:
        if seat is None:
            hold.end()
        else:
            seat.when_over(hold.end)  # a thread cannot be cancelled, and goes on


async def _attempted(command: CallStep, operation: Operation, live: Live, seat: Seat | None = None) -> Arrival:
    step = command.step
    attempt = Attempt(command, operation, live)
    began = operation.began = live.host.clock.now_ms()
    operation.beat = 0
    if (tracer := live.host.telemetry.tracer) is not None:
        live.host.telemetry.trace(tracer.attempt, live.partition, live.record, operation.id, attempt.number, began)
    try:
        result = await contained(_invoke(attempt, seat))
        data, copy = step.signature.result.copy(result, f"the result of {step.signature.what}", live.limit_bytes)
    except Exception as error:  # noqa: BLE001 - whatever the user's code raises is the step's outcome
        arrival = _failure(command, operation, live, error, began)
        if live.host.telemetry.is_detailed:
            _tell_end(step, live, began, "retrying" if isinstance(arrival.entry, Tried) else "failed")
        return arrival
    if live.host.telemetry.is_detailed:
        _tell_end(step, live, began, "done")
    steady = step.signature.result.steady(copy)
    return live.done(operation, data, copy=steady, attempts=attempt.number, began=began)


def _tell_end(step: DeclaredStep, live: Live, began: int, outcome: str) -> None:
    seconds = max(0, live.now_ms() - began) / 1000
    live.host.telemetry.detail("step_ended", step=step.name, outcome=outcome, seconds=seconds)


def _failure(command: CallStep, operation: Operation, live: Live, error: BaseException, began: int) -> Arrival:
    policy, noted = command.step.policy, live.notes_on(operation.id)
    attempt, deaths = noted.failures + 1, noted.deaths  # by the policy: that a process died is no failure of the step
    # InvalidInput: mostly a result that does not fit. Its effect has happened; another attempt would only repeat it.
    random = Random(f"{live.record.secret}/{operation.id}/{attempt}")
    final = policy.at_most_once is True or isinstance(error, InvalidInput)
    final = final or (policy.at_most_once == "attempt" and isinstance(error, StepTimeout))  # its effect is unknown
    delay_ms = None if final else policy.retry.next_delay_ms(error, attempt, random)
    recorded = describe(error)
    _log_failure(command, operation, live, recorded, attempt, delay_ms)
    if delay_ms is None:
        return live.failed(operation, recorded, attempts=attempt + deaths, began=began)
    live.host.telemetry.emit("step_retried", partition=live.partition, op=operation.id, attempt=attempt)
    now = live.now_ms()
    tried = Tried(operation.id, now, attempt, recorded, now + delay_ms, operation.fingerprint, deaths, began)
    live.amend(operation.id, tried=tried, died=0, intended=False)
    return Arrival(tried)


def _log_failure(
    command: CallStep, operation: Operation, live: Live, error: ErrorRecord, attempt: int, delay_ms: int | None
) -> None:
    record, most = live.record, command.step.policy.retry.max_attempts
    name = printable(f"workflow {record.workflow} {record.id}: step {operation.id}")
    after = "no other is made" if delay_ms is None else f"the next in {duration(delay_ms)}"
    level = logging.INFO if delay_ms is None and attempt == 1 else logging.WARNING  # a body may await a refusal
    log(level, "%s failed, attempt %d of %d, %s: %s", name, attempt, most, after, told_error(error, live.host.home))


def retry_now(live: Live) -> None:
    """End the pauses of the steps that wait for their next attempts, and have that noted: it outlives this process.

    Of those too that the body has not come to, because the code has changed since.
    """
    now = live.now_ms()
    for op, noted in list(live.noted.items()):
        if noted.tried is not None and noted.pauses(now):
            due_now = replace(noted.tried, at=now, again_at=AT_ONCE)
            live.amend(op, tried=due_now)
            live.report(due_now)


async def _invoke(attempt: Attempt, seat: Seat | None) -> Any:
    command, policy = attempt.command, attempt.command.step.policy
    step_scope.set(attempt)
    try:
        if policy.timeout_seconds is None and policy.heartbeat_seconds is None:
            return await _call(command, seat)
        return await _call_in_time(command, attempt, seat)
    finally:
        attempt.is_over = True


async def _call_in_time(command: CallStep, attempt: Attempt, seat: Seat | None) -> Any:
    step, policy = command.step, command.step.policy
    whole, silence = asyncio.timeout(policy.timeout_seconds), asyncio.timeout(policy.heartbeat_seconds)
    try:
        async with whole, silence:
            attempt.extend(silence, policy.heartbeat_seconds)
            return await _call(command, seat)
    except TimeoutError as error:
        if silence.expired():
            raise StepTimeout(f"step {step.name!r} gave no heartbeat for {policy.heartbeat_seconds} s") from error
        if whole.expired():
            raise StepTimeout(f"step {step.name!r} took more than {policy.timeout_seconds} s") from error
        raise


def _call(command: CallStep, seat: Seat | None) -> Awaitable[Any]:
    step = command.step
    if seat is None:
        called: Awaitable[Any] = step.function(*command.args, **command.kwargs)
        return called
    return _call_in_thread(step, command, seat)


async def _call_in_thread(step: DeclaredStep, command: CallStep, seat: Seat) -> Any:
    context = contextvars.copy_context()
    call = partial(context.run, _called, step.function, *command.args, **command.kwargs)
    result = await seat.run(call)
    return await result if inspect.isawaitable(result) else result  # a plain def around an async one


def _called(function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
    try:
        return contained_call(
            function, *args, **kwargs
        )  # a GeneratorExit in a future would end the code that awaits it
    except StopIteration as error:  # no future can carry it; a coroutine makes the same of it
        raise RuntimeError(f"the step raised {error!r}") from error


class Attempt:
    """One attempt of a step, for the code that runs in it (a ``StepScope``). Its heartbeats may come from a thread."""

    __slots__ = (
        "_fence",
        "_last",
        "_live",
        "_loop",
        "_operation",
        "_seconds",
        "_silence",
        "_thread",
        "command",
        "is_over",
        "number",
    )

    def __init__(self, command: CallStep, operation: Operation, live: Live) -> None:
        noted = live.notes_on(operation.id)
        self.command = command
        self.number = noted.attempts + 1
        self._operation = operation
        self._live = live
        self._fence = live.fence()
        self._last = noted.progressed
        self._loop = asyncio.get_running_loop()
        self._thread = threading.get_ident()
        self._silence: asyncio.Timeout | None = None
        self._seconds: float | None = None
        self.is_over = False

    def info(self) -> StepInfo:
        record, op, last = self._live.record, self._operation.id, self._last
        return StepInfo(
            idempotency_key=self._live.operation_key(op),
            attempt=self.number,
            workflow=record.workflow,
            id=record.id,
            operation=op,
            last_heartbeat=None if last is None else codec_for(Any).decode(bytes(last)),
            fence=self._fence,
            _beat=self.beat,
        )

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

    def _record(self, details: Raw) -> None:
        if self.is_over:  # a thread whose attempt is over, still running
            return
        if self._silence is not None and self._seconds is not None and not self._silence.expired():
            self._silence.reschedule(self._loop.time() + self._seconds)
        self._operation.beat = now = self._live.now_ms()
        self._live.amend(self._operation.id, progressed=details)
        self._live.report(Progressed(self._operation.id, now, details))


def _sql_effect(command: CallStep, operation: Operation, live: Live) -> AnyEffect:
    step = command.step
    if live.host.home.transactions is None:
        return Effect(operation.id, lambda: _without_transactions(step, operation, live))

    def work(cursor: SqlCursor) -> Arrival:
        began = live.now_ms()
        result = _called(step.function, cursor, *command.args, **command.kwargs)
        data, copy = step.signature.result.copy(result, f"the result of {step.signature.what}", live.limit_bytes)
        return live.done(operation, data, copy=step.signature.result.steady(copy), began=began)

    def failed(error: Exception) -> Arrival:
        return _failure(command, operation, live, error, live.now_ms())

    return SqlEffect(operation.id, step.name, work, failed)


async def _without_transactions(step: DeclaredStep, operation: Operation, live: Live) -> Arrival:
    told = f"step {step.name!r} is transactional, which needs a SQLite home, not {live.host.home.url}"
    return live.failed(operation, ConfigurationError(told))
