"""A trial: an app's own code on a home in memory, metered as if it were on AWS."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

from holdfast.app import App
from holdfast.backends.aws.meter import Usage
from holdfast.backends.memory import open_memory_home
from holdfast.cost.metering import MeteringStore, metered
from holdfast.cost.ours import Used
from holdfast.kernel.host import Limits
from holdfast.ports import Home

PAUSE_SECONDS: Final = 60.0
"""The pause between two repetitions, so that each begins and ends by itself, like one of a million that are far apart.
"""


async def try_out(
    app: App,
    work: Callable[[int], Awaitable[object]],
    *,
    runs: int,
    warm_up: int = 0,
    pause_seconds: float = PAUSE_SECONDS,
    inline_bytes: int | None = None,
    limits: Limits | None = None,
) -> Used:
    """Do ``work(0)``, ``work(1)``… one after the other on a new home in memory, and return the usage.

    The app must not be open. Its steps run for real. The first ``warm_up`` repetitions are not counted. The pauses pass
    on the running loop: in virtual time they cost nothing, elsewhere set ``pause_seconds``. What ``work``
    reads itself is counted, unless it does so in ``metering.uncounted``.
    """
    opened: list[MeteringStore] = []

    async def open_metered() -> Home:
        home, store = metered(open_memory_home(), app.clock, inline_bytes=inline_bytes)
        opened.append(store)
        return home

    app.home_url = open_metered
    async with app.worker(limits=limits):
        (store,) = opened
        for number in range(warm_up):
            await work(number)
            await asyncio.sleep(pause_seconds)
        store.reset()
        for number in range(warm_up, warm_up + runs):
            await work(number)
            await asyncio.sleep(pause_seconds)
        return _used(store, runs)


def _used(store: MeteringStore, runs: int) -> Used:
    total, wakes = store.meter.total, store.wakes
    return Used(
        runs=runs,
        usage=Usage(total.requests, total.write_units, total.read_units),
        wakes=wakes.claims,
        swept=wakes.swept,
        blob_writes=wakes.blob_writes,
        blob_reads=wakes.blob_reads,
    )
