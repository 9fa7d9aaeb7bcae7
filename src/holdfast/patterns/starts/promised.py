"""Handles on executions that begin later."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final, TypeVar

from holdfast.duration import Duration, seconds
from holdfast.errors import WaitTimeout
from holdfast.kernel.runtime import Connect
from holdfast.workflows.definition import Workflow
from holdfast.workflows.handle import Handle
from holdfast.workflows.record import describe_partition
from holdfast.workflows.scope import current_activation

R = TypeVar("R")

LOOK_AGAIN_SECONDS: Final = 0.1
LOOK_AGAIN_GROWTH: Final = 1.25
"""The first pause between looks for an execution that others begin, and the factor by which pauses grow."""


class Promised(Handle[R]):
    """A handle on an execution that begins later. Until then everything but its result raises ``NotFound``."""

    async def result(self, timeout: Duration | None = None) -> R:
        """Wait until it has begun and ended, and answer the result; see ``Handle.result``.

        In a workflow body ``NotFound`` is raised if it has not begun.
        """
        if current_activation() is not None:
            return await super().result(timeout)
        if timeout is None:
            await self._begun()
            return await super().result()
        began, loop = asyncio.get_running_loop().time(), asyncio.get_running_loop()
        try:
            async with asyncio.timeout(seconds(timeout)):
                await self._begun()
        except TimeoutError:
            raise WaitTimeout(f"{describe_partition(self._partition)} has not begun within {timeout}") from None
        return await super().result(max(0.0, seconds(timeout) - (loop.time() - began)))

    async def _begun(self) -> None:
        runtime = self._connect()
        pause_seconds = LOOK_AGAIN_SECONDS
        begins = asyncio.Event()
        runtime.wake_listeners.add(self._partition, begins.set)
        try:
            while await runtime.home.store.get(self._partition) is None:
                await _set_within(begins, pause_seconds)
                begins.clear()
                pause_seconds *= LOOK_AGAIN_GROWTH
        finally:
            runtime.wake_listeners.remove(self._partition, begins.set)


def promised_by(workflow: Workflow[..., R], connect: Connect) -> Callable[[str], Promised[R]]:
    """Turns the id of an execution that begins later into its handle."""
    return lambda id: Promised(workflow, id, connect)


async def _set_within(event: asyncio.Event, limit_seconds: float) -> None:
    try:
        await asyncio.wait_for(event.wait(), limit_seconds)
    except TimeoutError:
        return
