"""One worker process: it works until it is told to stop, or until something happens to it."""

from __future__ import annotations

import asyncio
import logging
import os
from typing import Any, Final

from tests.torture.die_with_parent import die_with_parent
from tests.torture.points import tell
from tests.torture.shop import app

from holdfast.runtime.worker import stop_requested
from holdfast.workflows.operations import child

REPORTED: Final = ("fenced", "blocked", "turn_failed", "unhandled", "ended")
CHECK_CHILDREN_MS: Final = "HOLDFAST_TORTURE_CHECK_CHILDREN_MS"
"""The environment variable that says how often a parent looks at its children by itself. A child's word to its parent
is only a hint, which is lost with the process that was to send it; a minute would be too long where many are killed."""


def report(event: str, fields: dict[str, Any]) -> None:
    if event in REPORTED:
        tell(event=event, **fields)
    elif event == "claimed" and fields["takeover"]:
        tell(event="taken over", partition=fields["partition"])


async def work() -> None:
    app.telemetry.subscribe(report)
    async with app.worker(grace="10s"):
        asked = asyncio.create_task(stop_requested())
        await asyncio.sleep(0)  # from here on it is listening
        tell(working=True)
        await asked


if __name__ == "__main__":
    die_with_parent()
    logging.basicConfig(level=logging.WARNING)
    if CHECK_CHILDREN_MS in os.environ:
        child.CHECK_AGAIN_MS = int(os.environ[CHECK_CHILDREN_MS])  # type: ignore[misc]  # final but for this run
    asyncio.run(work())
