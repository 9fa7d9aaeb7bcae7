"""One-step workflows per second: many callers at once, and one."""

from __future__ import annotations

from typing import Any

from benchmarks.bare import one_steps
from benchmarks.plan import Case, Dbos, Ours, Params, Restate, Row
from benchmarks.workload import LANE_WARM_UP, Workload, in_lanes

BARE = "a bare loop"
"""What ``benchmarks.bare`` is called in the names of rows."""

MODES: dict[str, Params] = {"sync": {"mode": "sync"}, "async": {"mode": "async"}}


async def one_step(params: Params) -> Any:
    """Start and await one-step workflows, ``concurrency`` at a time."""
    it, lanes, count = Workload(params["folder"]), params["concurrency"], params["count"]
    workflow = it.one_step if params["step"] == "async" else it.one_sync_step
    async with it.worker():
        await in_lanes(workflow, range(lanes * LANE_WARM_UP), lanes)
        took = await in_lanes(workflow, range(count), lanes)
        await it.check_completed(workflow, lanes * LANE_WARM_UP + count)
    return {f"{params['step']}_s": count / took}, it.settings


async def bare(params: Params) -> Any:
    """The same bytes in a bare loop."""
    return {"bare_s": await one_steps(params["folder"], params["concurrency"], params["count"])}, {}


def _case(concurrency: int, aim: float, count: int) -> Case:
    what = f"one-step workflows, {concurrency} at a time" if concurrency > 1 else "one-step workflows, one at a time"
    runs = tuple(
        Ours("one_step", {"step": step, "concurrency": concurrency, "count": count}, {"count": count // 10})
        for step in ("async", "sync")
    )
    at_bare = {"concurrency": concurrency, "count": count}
    runs = (*runs, Ours("bare", at_bare, {"count": count // 10}))
    rows = (
        Row(f"{what} (async step)", "workflows/s", "higher", "async_s", aim=aim, peer_metric="workflows_s"),
        Row(f"{what} (sync step)", "workflows/s", "higher", "sync_s", peer_metric="workflows_s"),
        Row(f"{what}, next to {BARE}", "×", "higher", "async_s", over="bare_s", peer_metric=""),
    )
    at_peer, quick = {"concurrency": concurrency, "seconds": 2.5}, {"seconds": 0.5}
    peers = (Dbos("one_step", at_peer, quick, MODES), Restate("one_step", at_peer, quick))
    return Case(f"one-step-{concurrency}", "throughput", runs, rows, peers)


CASES = (_case(64, 20_000, 10_000), _case(1, 2_000, 2_000))
