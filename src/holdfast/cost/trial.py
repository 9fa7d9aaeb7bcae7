"""A trial: an app's own code on a home in memory, metered as if it were on AWS."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from enum import StrEnum
from typing import Final

from holdfast.app import App
from holdfast.backends.aws.meter import Usage
from holdfast.backends.aws.settings import Settings
from holdfast.cost.deployments import Deployment, InFunction, InWorker
from holdfast.cost.metering import DEFAULTS
from holdfast.cost.ours import Used
from holdfast.kernel.limits import Limits

PAUSE_SECONDS: Final = 60.0
"""The pause between two repetitions, so that each begins and ends by itself, like one of a million that are far apart.
"""


class Path(StrEnum):
    """Where the work is done: in functions of Lambda behind a queue, or in workers that stay."""

    FUNCTIONS = "functions"
    WORKERS = "workers"


async def try_out(  # noqa: PLR0913 - one for each thing that a trial may vary
    app: App,
    work: Callable[[int, Deployment], Awaitable[object]],
    *,
    runs: int,
    path: Path = Path.FUNCTIONS,
    warm_up: int = 0,
    pause_seconds: float = PAUSE_SECONDS,
    inline_bytes: int | None = None,
    limits: Limits | None = None,
    settings: Settings = DEFAULTS,
) -> Used:
    """Do ``work(0, deployment)``, ``work(1, deployment)``… one after the other on a new home in memory, and return the
    usage. ``work`` is what a client does, which is another process: see ``Deployment.open_client``.

    The app must not be open. Its steps run for real. The first ``warm_up`` repetitions are not counted. The pauses pass
    on the running loop: in virtual time they cost nothing, elsewhere set ``pause_seconds``. What ``work``
    reads itself is counted, unless it does so in ``metering.uncounted``. ``limits`` replace those of the app.
    ``settings`` are those of the home.
    """
    deployed = (InWorker if path is Path.WORKERS else InFunction)(app, inline_bytes, limits, settings)
    async with deployed.opened(app):
        for number in range(warm_up):
            await work(number, deployed)
            await asyncio.sleep(pause_seconds)
        deployed.reset()
        for number in range(warm_up, warm_up + runs):
            await work(number, deployed)
            await asyncio.sleep(pause_seconds)
        return _used(deployed, runs)


def _used(deployed: Deployment, runs: int) -> Used:
    total, blobs = deployed.store.meter.total, deployed.store.blob_use
    return Used(
        runs=runs,
        usage=Usage(total.requests, total.write_units, total.read_units),
        queue=deployed.requests,
        swept=deployed.swept,
        invocations=deployed.invocations,
        flow_units=deployed.store.flow_use.write_units,
        blob_writes=blobs.writes,
        blob_reads=blobs.reads,
    )
