"""A client's patience: the store may be silent for a while, and whoever asked asks again, under the same id."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

import holdfast as hf
from holdfast.errors import StoreUnavailable

T = TypeVar("T")

PAUSE_SECONDS = 1.0
TRIES = 120


async def patiently(ask: Callable[[], Awaitable[T]]) -> T:
    """What ``ask`` answers, once the store answers and the thing is there: what starts it may be on its way.

    It may be asked several times, so it has to be safe to repeat.
    """
    for _ in range(TRIES):
        try:
            return await ask()
        except (StoreUnavailable, hf.NotFound, hf.WaitTimeout):
            await asyncio.sleep(PAUSE_SECONDS)
    return await ask()
