"""Waiting for a time, or until a step answers yes."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import ParamSpec, TypeVar

from holdfast.duration import Duration, seconds
from holdfast.errors import InvalidInput
from holdfast.replay.tasks import context_here, timers_called, wake_sleeper
from holdfast.workflows.scope import (
    activation_for,
    refused_in_queries,
)

P = ParamSpec("P")
T = TypeVar("T")


@refused_in_queries
async def sleep(duration: Duration) -> None:
    """Wait durably, from milliseconds to years: the process need not live that long, and it is never early (G8)."""
    loop, delay = activation_for("hf.sleep").loop, seconds(duration)
    if delay <= 0:
        await asyncio.sleep(0)
        return
    # What asyncio.sleep does, without its frame, and in the context of the task: sleepers are many.
    woken = loop.create_future()
    timer = loop.call_later(delay, wake_sleeper, woken, context=context_here(loop))
    try:
        await woken
    except BaseException:  # else it has fired
        timer.cancel()
        raise


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
