"""The points of the charts that no other group has: by the number of stored executions, by the size of a payload, …"""

from __future__ import annotations

import time
from typing import Any

from benchmarks.bare import one_steps
from benchmarks.plan import Params
from benchmarks.workload import LANE_WARM_UP, Workload, in_lanes

STORED = """
INSERT INTO holdfast_heads (partition, revision, status, epoch, body)
WITH RECURSIVE numbers(number) AS (SELECT ?1 UNION ALL SELECT number + 1 FROM numbers WHERE number + 1 < ?2)
SELECT 'wf#one_step#stored-' || number, 2, 'COMPLETED', 1, ?3 FROM numbers
"""


async def stored(params: Params) -> Any:
    """One-step workflows in a file that has so many executions already: more and more."""
    it, lanes, count = Workload(params["folder"]), params["concurrency"], params["count"]
    values: dict[str, float] = {}
    async with it.worker():
        await in_lanes(it.one_step, range(lanes * LANE_WARM_UP), lanes)
        run = it.store.runner.connection.execute
        ((body,),) = run("SELECT body FROM holdfast_heads WHERE partition LIKE 'wf#one_step#%' LIMIT 1").fetchall()
        there = 0
        for stored in params["sizes"]:
            run("BEGIN IMMEDIATE")
            run(STORED, (there, stored, body))
            run("COMMIT")
            run("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
            there = stored
            values[f"{stored}"] = count / await in_lanes(it.one_step, range(count), lanes)
    return values, it.settings


async def payload(params: Params) -> Any:
    """Workflows that take so many bytes, and have a step that returns them."""
    it, lanes, count = Workload(params["folder"]), params["concurrency"], params["count"]
    app = it.app

    @app.step
    async def passed(text: str) -> str:
        return text

    @app.workflow
    async def carried(text: str) -> int:
        return len(await passed(text))

    values: dict[str, float] = {}
    async with it.worker():
        for size in params["sizes"]:
            text = "x" * size

            async def carry(_number: int, text: str = text) -> None:
                await carried(text)

            await in_lanes(carry, range(lanes), lanes)
            values[f"{size}"] = count / await in_lanes(carry, range(count), lanes)
    return values, it.settings


async def bare(params: Params) -> Any:
    """A bare loop with the bytes of one-step workflows, in commits of as many as there are lanes."""
    return {"bare": await one_steps(params["folder"], params["concurrency"], params["count"])}, {}


async def begun(params: Params) -> Any:
    """One-step workflows, so many at a time; seconds of warm-up are not in it."""
    it, lanes, count = Workload(params["folder"]), params["concurrency"], params["count"]
    async with it.worker():
        await in_lanes(it.one_step, range(lanes * LANE_WARM_UP), lanes)
        began = time.perf_counter()
        await in_lanes(it.one_step, range(count), lanes)
        return {"ours": count / (time.perf_counter() - began)}, it.settings
