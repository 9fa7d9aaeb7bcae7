"""Waiting for the end of an execution, wherever it runs."""

from __future__ import annotations

import asyncio
from functools import partial
from random import Random
from typing import TYPE_CHECKING, Final, NamedTuple

from holdfast.kernel.host import holds
from holdfast.workflows.finding import head_of
from holdfast.workflows.record import ENDED, describe_partition
from holdfast.workflows.status import BlockedWarning

if TYPE_CHECKING:
    from holdfast.kernel.outcomes import Conclusion
    from holdfast.kernel.runtime import Runtime

LOOK_AGAIN_SECONDS: Final = 2.0
LOOK_AGAIN_GROWTH: Final = 1.25
"""The first pause between polls, which make up for a lost wake-up, and the factor by which pauses grow. A lost wake-up
costs at most a quarter of the time waited."""

BILLED_GROWTH: Final = 2.0
LONGEST_BILLED_SECONDS: Final = 600.0
"""The same for homes where each poll is billed and callers that only wait get no wake-up. The end is seen late by at
most the time it took, and never by much more than ten minutes."""

SCATTER: Final = 0.1
"""So much longer or shorter is a wait, so that those who began together do not look together for ever."""


class Ended(NamedTuple):
    """The status and body of an execution's head when it ended."""

    status: str
    body: bytes

    def __repr__(self) -> str:
        return f"Ended({self.status!r}, <{len(self.body)} bytes>)"


async def ended(runtime: Runtime, partition: str) -> Ended:
    """Wait until the execution has ended, wherever it runs. If it is blocked meanwhile, the log says so, once."""
    patience_seconds = LOOK_AGAIN_SECONDS
    warn = BlockedWarning()
    while True:
        future: asyncio.Future[Ended | None] = asyncio.get_running_loop().create_future()
        host, listener = runtime.host, partial(_resolve, future)
        runtime.wake_listeners.add(partition, listener)
        if host is not None:
            # An end that is written by now may have been taken back by a retry that the caller knows of.
            tell = _look_again if host.watchers.is_ending(partition) else _conclude
            host.watchers.add(partition, future, partial(tell, future))
        try:
            if host is not None and holds(host, partition):
                told = await future  # this process will see the end itself, or hear that it lost the entity
            else:
                told = await _look(runtime, partition, future, patience_seconds, warn)
        finally:
            runtime.wake_listeners.remove(partition, listener)
            if host is not None:
                host.watchers.remove(partition, future)
        if told is not None:
            return told
        runtime.presence.report(describe_partition(partition), partition, runtime.host)
        patience_seconds = _longer(patience_seconds, partition, runtime)


def _longer(patience_seconds: float, partition: str, runtime: Runtime) -> float:
    if not runtime.home.reads_are_paid:
        return patience_seconds * LOOK_AGAIN_GROWTH
    longer = min(BILLED_GROWTH * patience_seconds, LONGEST_BILLED_SECONDS)
    return longer * Random(f"{partition}/{runtime.sender.name}/{longer}").uniform(1 - SCATTER, 1 + SCATTER)


async def _look(
    runtime: Runtime,
    partition: str,
    future: asyncio.Future[Ended | None],
    patience_seconds: float,
    warn: BlockedWarning,
) -> Ended | None:
    """One look, and one wait if it has not ended; ``None`` means: look again."""
    head = await head_of(runtime, partition)
    if head.status in ENDED:
        return Ended(head.status, head.body)
    warn(head)
    timer = asyncio.get_running_loop().call_later(patience_seconds, _resolve, future)
    try:
        return await future
    finally:
        timer.cancel()


def _conclude(future: asyncio.Future[Ended | None], conclusion: Conclusion | None) -> None:
    if not future.done():
        future.set_result(None if conclusion is None else Ended(conclusion.status, conclusion.body))


def _look_again(future: asyncio.Future[Ended | None], _conclusion: Conclusion | None) -> None:
    _resolve(future)


def _resolve(future: asyncio.Future[Ended | None]) -> None:
    if not future.done():
        future.set_result(None)
