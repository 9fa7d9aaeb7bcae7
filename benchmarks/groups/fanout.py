"""One workflow with many steps, or many children, at once."""

from __future__ import annotations

from typing import Any

from benchmarks import bare
from benchmarks.groups.throughput import BARE
from benchmarks.plan import Case, Dbos, Ours, Params, Restate, Row
from benchmarks.workload import Workload, in_lanes

COUNT = {"count": 1_000}
QUICK = {"count": 100}
WAYS: dict[str, Params] = {"called": {"how": "called"}, "started": {"how": "started"}}


async def parallel(params: Params) -> Any:
    """``asyncio.gather`` over so many steps."""
    it = Workload(params["folder"])
    async with it.worker():
        await it.parallel(20)
        took = await in_lanes(it.parallel, [params["count"]], 1)
    return {"ms": took * 1e3}, it.settings


async def children(params: Params) -> Any:
    """``asyncio.gather`` over so many child workflows, which do nothing."""
    it = Workload(params["folder"])
    async with it.worker():
        await it.children(20)
        took = await in_lanes(it.children, [params["count"]], 1)
    return {"ms": took * 1e3}, it.settings


async def bare_parallel(params: Params) -> Any:
    """The same bytes in a bare loop."""
    return {"bare_ms": await bare.parallel(params["folder"], params["count"])}, {}


async def bare_children(params: Params) -> Any:
    """The same bytes in a bare loop."""
    return {"bare_ms": await bare.children(params["folder"], params["count"])}, {}


CASES = (
    Case(
        "parallel-steps",
        "fanout",
        (Ours("parallel", COUNT, QUICK), Ours("bare_parallel", COUNT, QUICK)),
        (
            Row("1,000 parallel steps in one workflow", "ms", "lower", "ms", aim=25),
            Row(f"1,000 parallel steps, next to {BARE}", "×", "lower", "ms", over="bare_ms", peer_metric=""),
        ),
        (Dbos("parallel", COUNT, QUICK), Restate("parallel", COUNT, QUICK)),
        rounds=5,
        peer_rounds=3,
    ),
    Case(
        "children",
        "fanout",
        (Ours("children", COUNT, QUICK), Ours("bare_children", COUNT, QUICK)),
        (
            Row("1,000 children of one workflow", "ms", "lower", "ms", aim=50),
            Row(f"1,000 children, next to {BARE}", "×", "lower", "ms", over="bare_ms", peer_metric=""),
        ),
        (Dbos("children", COUNT, QUICK, WAYS), Restate("children", COUNT, QUICK)),
        rounds=5,
        peer_rounds=2,
    ),
)
