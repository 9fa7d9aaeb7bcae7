"""How late a durable timer fires."""

from __future__ import annotations

import asyncio
import statistics
from typing import Any

from benchmarks.plan import Case, Dbos, Ours, Params, Restate, Row
from benchmarks.workload import Workload


async def timers(params: Params) -> Any:
    """Workflows that sleep for ``seconds``, ``count`` of them at once; by how much each woke late."""
    it, late = Workload(params["folder"]), []
    async with it.worker():
        await it.overshoot(0.01)
        for _ in range(params["times"]):
            late += await asyncio.gather(*[it.overshoot(params["seconds"]) for _ in range(params["count"])])
    assert min(late) >= 0, f"a timer fired {-min(late)} s early (G8)"
    return {"late_ms": statistics.median(late) * 1e3, "latest_ms": max(late) * 1e3}, it.settings


def _case(name: str, count: int, times: int, aim: float) -> Case:
    params, quick = {"count": count, "times": times, "seconds": 1.0}, {"times": 1, "seconds": 0.5}
    rows = (
        Row(f"{name}, median", "ms late", "lower", "late_ms", aim=aim),
        Row(f"{name}, the latest", "ms late", "lower", "latest_ms"),
    )
    return Case(
        f"timers-{count}",
        "timers",
        (Ours("timers", params, quick),),
        rows,
        (Dbos("timers", params, quick, only_wal=True), Restate("timers", params, quick)),
    )


CASES = (_case("a timer of 1 s", 1, 5, 2), _case("200 timers of 1 s at once", 200, 1, 5))
