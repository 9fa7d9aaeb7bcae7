"""How long a caller waits for a one-step workflow: start and result, one call at a time."""

from __future__ import annotations

import time
from typing import Any

from benchmarks.groups.throughput import MODES
from benchmarks.plan import Case, Dbos, Ours, Params, Restate, Row
from benchmarks.workload import Workload, percentile

WARM_UP = 50


async def from_async(params: Params) -> Any:
    """The caller is async, in the worker's own process."""
    it = Workload(params["folder"])
    took: list[float] = []
    async with it.worker():
        for number in range(WARM_UP + params["count"]):
            began = time.perf_counter()
            await it.one_step(number)
            took.append((time.perf_counter() - began) * 1e3)
    return _percentiles("async", took), it.settings


def from_sync(params: Params) -> Any:
    """The caller is not async: it goes through ``app.sync()``, whose loop has a thread of its own."""
    it = Workload(params["folder"])
    took: list[float] = []
    with it.app.sync(worker=True) as run:
        for number in range(WARM_UP + params["count"]):
            began = time.perf_counter()
            run(it.one_step(number))
            took.append((time.perf_counter() - began) * 1e3)
    return _percentiles("sync", took), it.settings


def _percentiles(caller: str, took: list[float]) -> dict[str, float]:
    warm = took[WARM_UP:]
    return {f"{caller}_p50_ms": percentile(warm, 0.5), f"{caller}_p99_ms": percentile(warm, 0.99)}


COUNT = {"count": 2_000}
QUICK = {"count": 200}
AT_PEER = {"count": 300}

CASES = (
    Case(
        "calls",
        "calls",
        (Ours("from_async", COUNT, QUICK), Ours("from_sync", COUNT, QUICK)),
        (
            Row("call of a one-step workflow, p50", "ms", "lower", "async_p50_ms", aim=0.5, peer_metric="p50_ms"),
            Row("call of a one-step workflow, p99", "ms", "lower", "async_p99_ms", aim=2, peer_metric="p99_ms"),
            Row("the same from a synchronous caller, p50", "ms", "lower", "sync_p50_ms", peer_metric="p50_ms"),
            Row("the same from a synchronous caller, p99", "ms", "lower", "sync_p99_ms", peer_metric="p99_ms"),
        ),
        (Dbos("calls", AT_PEER, {"count": 50}, MODES), Restate("calls", AT_PEER, {"count": 50})),
    ),
)
