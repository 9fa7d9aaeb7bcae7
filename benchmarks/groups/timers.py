"""How late a durable timer fires."""

from __future__ import annotations

import asyncio
import statistics
import time
from typing import Any

from benchmarks import bare
from benchmarks.groups.throughput import BARE
from benchmarks.plan import Case, Dbos, Ours, Params, Restate, Row
from benchmarks.workload import Workload


async def timers(params: Params) -> Any:
    """Workflows that sleep until one moment in ``seconds``, ``count`` of them; by how much each woke late."""
    it, late = Workload(params["folder"]), []
    async with it.worker():
        await it.overshoot(time.time() + 0.01)
        for _ in range(params["times"]):
            due = round(time.time() + params["seconds"], 3)  # our timers have whole milliseconds
            late += await asyncio.gather(*[it.overshoot(due) for _ in range(params["count"])])
    assert min(late) >= 0, f"a timer fired {-min(late)} s early (G8)"
    return {"late_ms": statistics.median(late) * 1e3, "latest_ms": max(late) * 1e3}, it.settings


async def bare_timers(params: Params) -> Any:
    """What is written for as many in a bare loop."""
    return {"bare_ms": await bare.woken(params["folder"], params["count"])}, {}


def _case(name: str, count: int, seconds: float, times: int, aim: float) -> Case:
    params, quick = {"count": count, "times": times, "seconds": seconds}, {"times": 1, "seconds": seconds / 2}
    rows = (
        Row(f"{name}, median", "ms late", "lower", "late_ms", aim=aim),
        Row(f"{name}, the latest", "ms late", "lower", "latest_ms"),
        Row(f"{name}, the latest, next to {BARE}", "×", "lower", "latest_ms", over="bare_ms", peer_metric=""),
    )
    return Case(
        f"timers-{count}",
        "timers",
        (Ours("timers", params, quick), Ours("bare_timers", params, quick)),
        rows,
        (Dbos("timers", params, quick, only_wal=True), Restate("timers", params, quick)),
    )


CASES = (_case("a timer of 1 s", 1, 1.0, 5, 2), _case("200 timers due at once", 200, 3.0, 1, 5))
"""Three seconds, because a peer needs one or two to have 200 of them asleep."""
