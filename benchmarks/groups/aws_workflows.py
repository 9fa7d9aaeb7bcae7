"""Workflows beside AWS's own durable execution SDK for Python, which has no service here but its local runner.

Its runner is a stand-in for tests: nothing it keeps survives its process. So each comparison names the place: in memory
both keep all in this process; on a file ours syncs every commit, and its SQLite (``synchronous=NORMAL``) none; over
HTTP ours asks DynamoDB Local, and its client asks the runner in a process of its own. The SDK waits up to 100 ms at the
end of each invocation, for a thread of its own; "each further step" leaves that out. What carries over to AWS are
the requests, each of which is a round trip there. Theirs are the calls of its client for checkpoints: that an execution
starts and ends is part of the invocation. Ours are all that DynamoDB is asked, start and end included.
"""

from __future__ import annotations

import time
from typing import Any

import holdfast as hf
from benchmarks.emulator import new_home
from benchmarks.plan import Case, Durable, Ours, Params, Row
from benchmarks.workload import Workload, percentile

WARM_UP = 3

QUIET = hf.Limits(sweep_seconds=3600)
"""Sweeps are by the hour and not by the execution; they must not be counted among the requests of one."""


async def executions(params: Params) -> Any:
    """Executions one after another: how long each takes, less what it waits on purpose, and what it asks for."""
    place, count = params["store"], params["count"]
    home = {"memory": "memory://", "sqlite": None, "http": ""}[place]
    it = Workload(params["folder"], home=await new_home(params["endpoint"]) if home == "" else home, limits=QUIET)
    workflow = {"steps": it.sequence, "parallel": it.parallel, "wait": it.nap}[params["kind"]]
    on_purpose_ms = count * 1e3 if workflow is it.nap else 0
    took: list[float] = []

    async def ms(each: Any, number: int) -> float:
        began = time.perf_counter()
        assert await each(number) == number
        return (time.perf_counter() - began) * 1e3

    async with it.worker():
        for _ in range(WARM_UP):
            await it.sequence(1)
        meter = it.app.runtime().home.store.meter if place == "http" else None
        if meter:
            meter.reset()
        for _ in range(params["times"]):
            took.append(await ms(workflow, count) - on_purpose_ms)
        used = meter.total if meter else None
        values = {f"{place}_p50_ms": percentile(took, 0.5), f"{place}_p99_ms": percentile(took, 0.99)}
        if params["kind"] == "steps" and count > 1:
            of_one_step = [await ms(it.sequence, 1) for _ in range(params["times"])]
            values[f"{place}_further_ms"] = (percentile(took, 0.5) - percentile(of_one_step, 0.5)) / (count - 1)
    if used:
        values |= {"http_requests": used.requests / len(took), "http_write_units": used.write_units / len(took)}
    return values, it.settings


PLACES = {"memory": "in memory", "sqlite": "on a file", "http": "over HTTP"}


def _case(name: str, what: str, kind: str, count: int, times: int, at_peer: int) -> Case:
    def params(place: str, often: int) -> Params:
        return {"store": place, "kind": kind, "count": count, "times": often}

    further = kind == "steps" and count > 1
    more = [
        Row(f"each further step, {where}", "ms", "lower", f"{place}_further_ms")
        for place, where in PLACES.items()
        if further
    ]
    latencies = [
        Row(f"{what}, {where}, p{share}", "ms", "lower", f"{place}_p{share}_ms")
        for place, where in PLACES.items()
        for share in ((50,) if kind == "wait" else (50, 99))
    ]
    return Case(
        name,
        "aws_workflows",
        tuple(Ours("executions", params(place, times), {"times": max(2, times // 10)}) for place in PLACES),
        (
            *latencies,
            Row(f"{what}, requests", "requests", "lower", "http_requests"),
            Row(f"{what}, write units", "units", "lower", "http_write_units", peer_metric=""),
            *more,
        ),
        tuple(Durable("executions", params(place, at_peer), {"times": max(2, at_peer // 10)}) for place in PLACES),
        peer_rounds=1,
        emulator=True,
    )


CASES = (
    _case("aws-one-step", "workflow of one step", "steps", 1, 200, 100),
    _case("aws-ten-steps", "workflow of ten steps", "steps", 10, 100, 60),
    _case("aws-parallel", "workflow of ten parallel steps", "parallel", 10, 100, 60),
    _case("aws-wait", "workflow that waits a second: more than that", "wait", 1, 5, 5),
)
