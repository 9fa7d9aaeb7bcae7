"""What a sleeping workflow costs in memory."""

from __future__ import annotations

import gc
import time
from typing import Any

import holdfast as hf
from benchmarks.plan import Case, Dbos, Ours, Params, Row
from benchmarks.workload import Workload, in_lanes, rss_mb

LANES = 64


async def sleeping(params: Params) -> Any:
    """Put workflows to sleep, all of them resident, and see by how much the process has grown."""
    count = params["count"]
    it = Workload(params["folder"], limits=hf.Limits(resident=2 * count))
    async with it.worker():
        await in_lanes(it.one_step, range(200), LANES)
        gc.collect()
        before, began = rss_mb(), time.perf_counter()
        await in_lanes(lambda number: it.asleep.start(number, 86_400.0), range(count), LANES)
        await it.told("suspended", count)
        took = time.perf_counter() - began
        gc.collect()
        grown = rss_mb() - before
    return {"kb_each": grown * 1e3 / count, "rss_mb": before + grown, "slept_s": count / took}, it.settings


_ROWS = (
    Row("memory per sleeping workflow", "KB", "lower", "kb_each"),
    Row("workflows put to sleep", "workflows/s", "higher", "slept_s", peer_metric=""),
)

CASES = (
    Case(
        "sleeping",
        "residency",
        (Ours("sleeping", {"count": 10_000}, {"count": 1_000}),),
        (*_ROWS, Row("a process with 10,000 asleep", "MB", "lower", "rss_mb", peer_metric="")),
        (Dbos("sleeping", {"count": 1_000}, {"count": 100}, only_wal=True),),
        peer_rounds=1,
    ),
    Case(
        "sleeping-100000",
        "residency",
        (Ours("sleeping", {"count": 100_000}, {"count": 10_000}),),
        (
            Row("memory per sleeping workflow, of 100,000", "KB", "lower", "kb_each"),
            Row("workflows put to sleep, of 100,000", "workflows/s", "higher", "slept_s"),
            Row("a process with 100,000 asleep", "MB", "lower", "rss_mb", aim=2_000),
        ),
        rounds=1,
        only_huge=True,
    ),
)
