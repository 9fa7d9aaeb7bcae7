"""One worker: relays, sends, consumes, until it is told to stop or dies at its point."""

from __future__ import annotations

import asyncio
import json
import logging
import sys
from typing import Any

from tests.messaging.torture.points import open_relay_home, plant
from tests.messaging.torture.shop import make
from tests.torture.die_with_parent import die_with_parent
from tests.torture.points import Fault, tell

from holdfast.runtime.worker import stop_requested

REPORTED = ("fenced", "parked", "message_failed", "turn_failed", "blocked", "event_unwanted", "message_mismatched")


def report(event: str, fields: dict[str, Any]) -> None:
    if event in REPORTED:
        tell(event=event, **fields)
    elif event == "claimed" and fields["takeover"]:
        tell(event="taken over", partition=fields["partition"])


class Attempts(list[str]):
    """Tells the parent of each."""

    def append(self, key: str, /) -> None:
        tell(attempt=key)


async def work(path: str, faults: list[Fault], seed: int, doubled: float) -> None:
    app, _ = make(lambda: open_relay_home(path, faults, seed, doubled), Attempts())
    app.telemetry.subscribe(report)
    async with app.worker(grace="10s"):
        asked = asyncio.create_task(stop_requested())
        await asyncio.sleep(0)  # from here on it is listening
        tell(working=True)
        await asked


if __name__ == "__main__":
    die_with_parent()
    logging.basicConfig(level=logging.WARNING)
    given = json.loads(sys.argv[1])
    plant(given["plant"])
    asyncio.run(work(given["path"], [Fault(*each) for each in given["faults"]], given["seed"], given["doubled"]))
