"""Waiting and small deterministic things: sleep, conditions, time, randomness, patches, a new run."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable
from datetime import datetime
from random import Random
from typing import Any, NoReturn, ParamSpec, TypeVar
from uuid import UUID

from holdfast.clock import moment
from holdfast.duration import Duration, seconds
from holdfast.errors import ContinueAsNew, Evicted, InvalidInput
from holdfast.functions import told
from holdfast.kernel.unit import current_unit
from holdfast.replay.tasks import timers_called
from holdfast.workflows.saga import refuse_new_run
from holdfast.workflows.scope import (
    BodyScope,
    activation_for,
    current_activation,
    refuse_in_step,
    refused_in_queries,
)

P = ParamSpec("P")
T = TypeVar("T")


@refused_in_queries
async def sleep(duration: Duration) -> None:
    """Wait durably, from milliseconds to years: the process need not live that long, and it is never early (G8)."""
    activation_for("hf.sleep")
    await asyncio.sleep(seconds(duration))


@refused_in_queries
async def wait_for(
    check: Callable[P, Awaitable[T]],
    *args: P.args,
    **kwargs: P.kwargs,
) -> T:
    """Call the step ``check`` until it answers something true, and answer that.

    Waits five seconds after the first call and half as long again after each, up to five minutes; use
    ``poll(every=..., backoff=..., max_interval=...)`` for other intervals, ``asyncio.timeout`` for a limit.
    """
    return await poll()(check, *args, **kwargs)


class poll:  # noqa: N801  it reads as a verb: poll(every="10s")(check, order)
    """Durable polling: ``await hf.poll(every="10s")(check, ...)`` calls the step until its answer is true."""

    def __init__(self, *, every: Duration = 5.0, backoff: float = 1.5, max_interval: Duration = 300.0) -> None:
        if backoff < 1:
            raise InvalidInput(f"backoff multiplies each interval: at least 1, not {backoff}")
        self._every = seconds(every)
        self._backoff = backoff
        self._max_interval = max(seconds(max_interval), self._every)

    async def __call__(self, check: Callable[P, Awaitable[T]], *args: P.args, **kwargs: P.kwargs) -> T:
        activation_for("hf.poll")
        interval = self._every
        while not (answer := await check(*args, **kwargs)):
            with timers_called("poll"):
                await asyncio.sleep(interval)
            interval = min(interval * self._backoff, self._max_interval)
        return answer


def now() -> datetime:
    """The time, in UTC: in a workflow body that of the last thing it waited for, the same on every replay; in a
    handler, such as an actor's method, that of the app's clock.
    """
    if (activation := current_activation()) is not None:
        return moment(activation.now_ms)
    if (unit := current_unit.get()) is not None:
        return moment(unit.now_ms())
    refuse_in_step("hf.now")
    raise InvalidInput("hf.now works inside a workflow body, an actor's method or a consumer only")


def uuid() -> UUID:
    """A random UUID that is the same on every replay."""
    return UUID(int=activation_for("hf.uuid").random.getrandbits(128), version=4)


def random() -> Random:
    """A generator of random numbers that repeats itself on every replay. Not for secrets."""
    return activation_for("hf.random").random


def patched(id: str) -> bool:
    """Fork old and new code: true on executions that have not passed here under the old code.

    Write ``if hf.patched("fraud-check"): new() else: old()``. When no old execution is left, drop the old branch.
    """
    return activation_for("hf.patched").patched(id)


def removed(*names: str) -> None:
    """Declare that this code does without steps, children or other operations of these names.

    An execution in which earlier code has finished one of them, or has it under way, goes on all the same; without the
    declaration it is blocked (G13). A name is that of a step (``"charge"``) or the whole identity of an operation, as
    the history shows it (``"ship#0/charge#0"``). Call it first thing in the body; drop it when no old execution is
    left.
    """
    activation = activation_for("hf.removed")
    activation.past.remove(names, activation.requested)


def query(function: Callable[[], T]) -> Callable[[], T]:
    """Let ``handle.query(function's name)`` call this function of the body to look at its live state. It must not wait
    or change anything.
    """
    activation = activation_for("hf.query")
    name = getattr(function, "__name__", "")
    if isinstance(function, type) or inspect.iscoroutinefunction(function) or not name:
        raise InvalidInput(f"a query is a plain def, asked for by its name, and was given {told(function)}")
    activation.queries = {**activation.queries, name: function}
    return function


def continue_as_new(*args: Any, **kwargs: Any) -> NoReturn:
    """End this run and go on as a new one of the same execution: other arguments, an empty journal.

    Signals not yet taken are carried over; everything else that is still running is cancelled. Refused inside
    ``hf.saga()`` (``InvalidInput``).
    """
    activation = activation_for("hf.continue_as_new")
    if activation.loop.evicting:
        raise Evicted
    refuse_new_run()
    scope: BodyScope = activation.context
    raise ContinueAsNew(scope.bind(args, kwargs))
