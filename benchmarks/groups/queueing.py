"""Starting while nobody works, then working it all off."""

from __future__ import annotations

import time
from typing import Any

from benchmarks.bare import starts
from benchmarks.groups.throughput import BARE
from benchmarks.plan import Case, Dbos, Ours, Params, Row
from benchmarks.workload import Workload, in_lanes


async def queue(params: Params) -> Any:
    """Start workflows from a client without a worker, then open a worker and time until the last has ended."""
    it, count, lanes = Workload(params["folder"]), params["count"], params["concurrency"]
    async with it.client():
        took = await in_lanes(it.no_step.start, range(count), lanes)
        began = time.perf_counter()
        async with it.worker():
            await it.told("ended", count)
            done = time.perf_counter() - began
            await it.check_completed(it.no_step, count)
    return {f"enqueued_s_{lanes}": count / took, f"done_s_{lanes}": count / done}, it.settings


async def bare(params: Params) -> Any:
    """The starts in a bare loop."""
    return {"bare_s": await starts(params["folder"], params["concurrency"], params["count"])}, {}


def _ours(lanes: int, count: int) -> Ours:
    return Ours("queue", {"concurrency": lanes, "count": count}, {"count": count // 10})


CASES = (
    Case(
        "queue",
        "queueing",
        (_ours(64, 10_000), _ours(1, 2_000), Ours("bare", {"concurrency": 64, "count": 10_000}, {"count": 1_000})),
        (
            Row("enqueued, 64 callers", "workflows/s", "higher", "enqueued_s_64", aim=20_000, peer_metric="enqueued_s"),
            Row(f"enqueued, 64 callers, next to {BARE}", "×", "higher", "enqueued_s_64", over="bare_s", peer_metric=""),
            Row("enqueued, one caller", "workflows/s", "higher", "enqueued_s_1", peer_metric="enqueued_s"),
            Row("done, once a worker opens", "workflows/s", "higher", "done_s_64", aim=10_000, peer_metric="done_s"),
        ),
        (
            Dbos(
                "queue",
                {"count": 300},
                {"count": 50},
                {
                    "one caller": {"mode": "sync", "concurrency": 1},
                    "8 threads": {"mode": "sync", "concurrency": 8},
                    "64 tasks": {"mode": "async", "concurrency": 64},
                },
            ),
        ),
    ),
)
