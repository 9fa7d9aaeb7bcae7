"""Sequential steps of one workflow: how many per second, and whether a step costs more the more came before it."""

from __future__ import annotations

import time
from typing import Any

from benchmarks.bare import steps
from benchmarks.groups.throughput import BARE, MODES
from benchmarks.plan import Case, Dbos, Ours, Params, Restate, Row, Values
from benchmarks.workload import Workload

SIZES = ([100, 10], [1_000, 2], [5_000, 1], [10_000, 1])
"""Steps per workflow, and how many such workflows one round runs."""


async def sequential(params: Params) -> Any:
    """Run workflows of so many steps, one after another; the start and the end of each are in the time."""
    it = Workload(params["folder"])
    values: Values = {}
    async with it.worker():
        await it.sequence(50)
        for size, times in params["sizes"]:
            began = time.perf_counter()
            for _ in range(times):
                await it.sequence(size)
            took = (time.perf_counter() - began) / times
            values |= {f"steps_s_{size}": size / took, f"us_per_step_{size}": took / size * 1e6}
    return values, it.settings


async def bare(params: Params) -> Any:
    """The same bytes in a bare loop."""
    return {"bare_s": await steps(params["folder"], params["count"])}, {}


_QUICK = {"sizes": [[100, 1], [500, 1]]}

CASES = (
    Case(
        "sequential",
        "steps",
        (Ours("sequential", {"sizes": SIZES}, _QUICK), Ours("bare", {"count": 5_000}, {"count": 500})),
        (
            *(
                Row(f"sequential steps, workflow of {size:,}", "steps/s", "higher", f"steps_s_{size}", aim=4_000)
                for size, _ in SIZES
            ),
            Row(f"sequential steps, next to {BARE}", "×", "higher", "steps_s_100", over="bare_s", peer_metric=""),
            Row("cost per step at 10,000 steps against 100", "×", "lower", "us_per_step_10000", over="us_per_step_100"),
        ),
        (
            Dbos("sequential", {"sizes": SIZES}, _QUICK, MODES, default_journal={"sizes": [[100, 3], [1_000, 1]]}),
            Restate("sequential", {"sizes": SIZES}, _QUICK),
        ),
        peer_rounds=1,
    ),
)
