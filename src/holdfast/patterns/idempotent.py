"""Idempotent handlers: a function runs once for each key, and repeats get the recorded result (G11).

The handler's own effects are at least once: it runs again if its process dies before its outcome is recorded (G10).
The outcome is exactly once: every caller with the same key and payload gets the same one.
"""

from __future__ import annotations

import asyncio
import functools
import inspect
import math
import typing
from collections.abc import Callable, Coroutine
from datetime import datetime
from types import SimpleNamespace
from typing import Any, ParamSpec, TypeVar, cast

from msgspec import Struct

from holdfast.clock import moment
from holdfast.codec.typed import Codec, codec_for
from holdfast.containment import contained, contained_call
from holdfast.coordination import idempotency
from holdfast.coordination.idempotency import FAILED, Ended, Record, Terms, place_of
from holdfast.duration import Duration, milliseconds, seconds
from holdfast.errors import (
    CallFailed,
    ConfigurationError,
    InvalidInput,
    LeaseLost,
    ResultNotStored,
    Terminal,
)
from holdfast.failure import ErrorRegistry
from holdfast.functions import is_generator, told
from holdfast.kernel.runtime import Connect
from holdfast.patterns.attempts import Attempt, Attempts, Policy
from holdfast.patterns.bridge import ask, foreign_loop
from holdfast.patterns.keys import REMAINING_TIME, Call, CallReader, Parts, key_text
from holdfast.workflows.definition import Workflow

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")

SHORTEST_LEASE_MS = 1_000
LAMBDA_MARGIN_MS = 1_000
"""How much longer than the rest of its time a function of AWS Lambda holds its key."""


class IdempotencyRecord(Struct, frozen=True):
    """The record of a key. ``status`` is ``RUNNING``, ``COMPLETED``, ``FAILED``, ``FREE`` (it may be tried
    again at once) or ``PARKED``.

    ``attempts_started`` less ``attempts_finished`` attempts died, or are at work. A parked key never expires.
    """

    key: str
    status: str
    attempts_started: int
    attempts_finished: int
    started_at: datetime
    expires_at: datetime | None
    error: str | None


OnReplay = Callable[[Any, IdempotencyRecord], Any]


class HandlerOptions(Struct, frozen=True, kw_only=True):
    """The options of the decorator. See ``Patterns.idempotent``."""

    key: Parts
    payload: Parts | None
    window: Duration
    lease: Duration
    wait: Duration
    final: tuple[type[Exception], ...]
    max_crashes: int
    cache: int
    on_replay: OnReplay | None
    name: str | None


def policy_of(name: str, what: str, options: HandlerOptions) -> Policy:
    """The policy that the options of a handler describe. Raises ``InvalidInput`` if they are invalid."""
    window_ms, lease_ms = milliseconds(options.window), milliseconds(options.lease)
    if window_ms == 0 or lease_ms < SHORTEST_LEASE_MS:
        raise InvalidInput(f"{what}: window must be positive and lease at least 1 second")
    for option, number, least in (("max_crashes", options.max_crashes, 1), ("cache", options.cache, 0)):
        given: Any = number  # whatever its annotation says
        if not isinstance(given, int) or isinstance(given, bool) or given < least:
            raise InvalidInput(f"{what}: {option} must be a whole number of at least {least}, got {given!r}")
    return Policy(
        name=name,
        what=what,
        terms=Terms(window_ms, options.max_crashes),
        lease_ms=lease_ms,
        wait_seconds=seconds(options.wait),
        cache=options.cache,
    )


class Handler:
    """One idempotent handler: how its calls are distinguished, and what its outcomes look like."""

    def __init__(
        self,
        function: Callable[..., Any],
        options: HandlerOptions,
        connect: Connect,
        errors: ErrorRegistry,
    ) -> None:
        what = f"handler {options.name or getattr(function, '__name__', repr(function))!r}"
        _check_function(function, what)
        self.name = options.name or function.__name__
        self.attempts = Attempts(connect, policy_of(self.name, what, options))
        self.keys = KeyRecords(self.name, self.attempts, connect)
        self._what = what
        self._connect = connect
        self._errors = errors
        self._reader = CallReader(function, what, options.key, options.payload)
        self._result = _result_codec(function, what)
        self._final: tuple[type[Exception], ...] = (Terminal, *options.final)
        self._on_replay = options.on_replay
        for each in options.final:
            errors.register(each)

    def call(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Call:
        """The arguments of one call, read. Raises ``TypeError`` as the function itself would."""
        return self._reader.call(args, kwargs)

    async def begin(self, call: Call) -> Attempt | Ended:
        """The right to run the function, or its earlier outcome. Raises ``InvalidInput`` before anything is asked of
        the store, and what ``Attempts.begin`` raises.
        """
        place = place_of(self.name, self._reader.key(call), *self._reader.fingerprints(call))
        return await self.attempts.begin(place, ends_in_ms=_rest_of_lambda(call.lambda_context))

    async def finish(self, attempt: Attempt, result: Any) -> Any:
        """Record the function's result, and return it as every repeat will get it."""
        try:
            data, copy = self._result.copy(result, f"the result of {self._what}", self._connect().limit_bytes)
        except InvalidInput as error:
            return await self._finish_without(attempt, result, error)
        try:
            await self.attempts.complete(attempt, data)
        except (LeaseLost, ResultNotStored) as error:
            error.value = copy
            raise
        return copy

    async def _finish_without(self, attempt: Attempt, result: Any, why: InvalidInput) -> Any:
        try:
            await self.attempts.complete_without_result(attempt, str(why))
        except (LeaseLost, ResultNotStored) as error:
            error.value = result
            raise
        told = f"{self._what} has run, and repeats will not run it again, but its result could not be kept: {why}"
        raise ResultNotStored(told, result) from why

    async def fail(self, attempt: Attempt, error: BaseException) -> None:
        """Record that the function raised, or let the key be tried again. Never raises."""
        await self.attempts.failed(attempt, error, final=isinstance(error, self._final))

    def replay(self, ended: Ended, call: Call) -> Any:
        """What a repeat gets: the same result, or the same error."""
        record = ended.record
        self._connect().emit("replayed", handler=self.name)
        if ended.status == FAILED:
            assert record.error is not None
            raise self._errors.rebuild(record.error, CallFailed)
        if record.lost:
            raise ResultNotStored(f"{self._what} has run before, and its result could not be kept: {record.lost}")
        result = self._result.decode(bytes(record.result), f"the recorded result of {self._what}")
        if self._on_replay is None:
            return result
        return self._on_replay(result, _public(self._reader.key(call), ended.status, record, ended.expires_at))


class KeyRecords:
    """The records of one handler's keys, for operators. A key is given part by part."""

    def __init__(self, name: str, attempts: Attempts, connect: Connect) -> None:
        self._name = name
        self._attempts = attempts
        self._connect = connect

    async def get(self, *key: Any) -> IdempotencyRecord | None:
        """The record of a key; ``None`` if there is none, or its window is over."""
        place = self._place(key)
        item = await idempotency.look(self._connect(), place)
        return None if item is None else _public(place.sort, item.status, idempotency.decode(item), item.expires_at)

    async def forget(self, *key: Any) -> bool:
        """Delete the record of a key, so that its next use is its first; false if there is none.

        For a parked key, once it is known what killed its attempts and what they have done. Raises ``InvalidState``
        while an attempt runs under it. Outcomes that other processes keep in memory stay there for their window.
        """
        self._attempts.forget_outcomes()
        return await idempotency.forget(self._connect(), self._place(key))

    def _place(self, key: tuple[Any, ...]) -> idempotency.Place:
        return place_of(self._name, key_text(key, f"handler {self._name!r}"))


# ── The two shells: the same story for functions of either colour ───────────────────────────────────────────────────


def around_async(
    handler: Handler, function: Callable[P, Coroutine[Any, Any, R]]
) -> Callable[P, Coroutine[Any, Any, R]]:
    """The function, run once for each key."""

    @functools.wraps(function)
    async def guarded(*args: P.args, **kwargs: P.kwargs) -> R:
        call = handler.call(args, kwargs)
        begun = await handler.begin(call)
        if isinstance(begun, Ended):
            return cast("R", handler.replay(begun, call))
        try:
            result = await contained(function(*args, **kwargs))
        except GeneratorExit:  # the coroutine is thrown away, and may await nothing: the lease lapses
            begun.stop()
            raise
        except BaseException as error:
            await handler.fail(begun, error)
            raise
        return cast("R", await handler.finish(begun, result))

    return guarded


def around_sync(
    handler: Handler, function: Callable[P, R], loop_of: Callable[[], asyncio.AbstractEventLoop]
) -> Callable[P, R]:
    """The same for a function that is not async. The store is used on the app's loop, in another thread."""

    @functools.wraps(function)
    def guarded(*args: P.args, **kwargs: P.kwargs) -> R:
        loop = foreign_loop(loop_of(), handler.name)
        call = handler.call(args, kwargs)
        begun = ask(loop, handler.begin(call))
        if isinstance(begun, Ended):
            return cast("R", handler.replay(begun, call))
        try:
            result = contained_call(function, *args, **kwargs)
        except BaseException as error:
            ask(loop, handler.fail(begun, error))
            raise
        return cast("R", ask(loop, handler.finish(begun, result)))

    return guarded


# ── Reading the function ────────────────────────────────────────────────────────────────────────────────────────────


def _check_function(function: Any, what: str) -> None:
    if isinstance(function, Workflow):
        raise ConfigurationError(
            f"{what} is a workflow, which is idempotent by its id: start it with workflow.start(..., id=key). A "
            "repeat gets the same execution, as long as it is kept"
        )
    if not inspect.isfunction(function) or is_generator(function):
        raise ConfigurationError(f"{what} must be a function written with def or async def, not {told(function)}")


def _result_codec(function: Callable[..., Any], what: str) -> Codec[Any]:
    """Only the annotation of the result matters: others may name what exists for type checkers alone."""
    inner = inspect.unwrap(function)
    if "return" not in inner.__annotations__:
        return codec_for(Any)
    alone = cast("Any", SimpleNamespace(__annotations__={"return": inner.__annotations__["return"]}))
    try:
        hint = typing.get_type_hints(alone, globalns=inner.__globals__, include_extras=True)["return"]
    except Exception as error:
        raise ConfigurationError(
            f"the annotation of the result of {what} cannot be resolved: {error}. Import or define it at module level, "
            "outside 'if TYPE_CHECKING:' and outside functions: it is read at run time"
        ) from error
    return codec_for(hint)


def _rest_of_lambda(context: Any) -> int | None:
    return None if context is None else math.ceil(getattr(context, REMAINING_TIME)()) + LAMBDA_MARGIN_MS


def _public(key: str, status: str, record: Record, expires_at: int | None) -> IdempotencyRecord:
    error = record.error
    return IdempotencyRecord(
        key=key,
        status=status,
        attempts_started=record.started,
        attempts_finished=record.finished,
        started_at=moment(record.started_at),
        expires_at=None if expires_at is None else moment(expires_at),
        error=None if error is None else f"{error.type}: {error.message}",
    )
