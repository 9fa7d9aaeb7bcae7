"""A long journal resumes after a crash: how long, and whether twice the journal takes twice the time."""

from __future__ import annotations

import shutil
import time
from pathlib import Path
from typing import Any

import holdfast as hf
from benchmarks.groups.recovery import stage
from benchmarks.plan import Case, Dbos, Ours, Params, Row, Values
from benchmarks.workload import Workload


def replay(params: Params) -> Any:
    """Journals of so many steps, the process killed behind the last; from the next start to the end, several times."""
    values: Values = {}
    for size in params["sizes"]:
        crashed = Path(params["folder"]) / f"crashed-{size}"
        crashed.mkdir()
        stage("begin", {"folder": str(crashed), "count": size}, "replay")
        time.sleep(hf.Limits().lease_ms / 1000)  # a copy does not show that the process is dead: its lease would count
        took = []
        for attempt in range(params["times"]):
            copy = crashed.with_name(f"copy-{size}-{attempt}")
            shutil.copytree(crashed, copy, ignore=shutil.ignore_patterns("*-bells"))
            began = time.time()
            took.append(stage("finish", {"folder": str(copy), "count": size}, "replay") - began)
            shutil.rmtree(copy)
        values |= {f"s_{size}": took, f"us_per_step_{size}": [seconds / size * 1e6 for seconds in took]}
    return values, {"synchronous": 2, "journal_mode": "wal"}


async def begin(params: Params) -> None:
    """Run all but the last step, say so, and wait to be killed."""
    it = Workload(params["folder"], hold=True)
    async with it.worker():
        await it.long_history.start(params["count"], id="long")
        await it.begun(params["count"] + 1)
        print(time.time(), flush=True)
        await it.told("killed", 1)


async def finish(params: Params) -> None:
    """Say when it has ended, and check that no step ran again."""
    it = Workload(params["folder"])
    async with it.worker():
        await it.told("ended", 1)
        print(time.time(), flush=True)
        await it.check_completed(it.long_history, 1)
        assert it.began == 1, f"{it.began - 1} finished steps ran again (G2)"


CASES = (
    Case(
        "replay",
        "replay",
        (Ours("replay", {"sizes": [10_000, 50_000], "times": 3}, {"sizes": [1_000], "times": 2}),),
        (
            Row(
                "a journal of 10,000 steps resumes after kill -9",
                "s from process start",
                "lower",
                "s_10000",
                peer_metric="seconds",
            ),
            Row(
                "a journal of 50,000 steps resumes after kill -9",
                "s from process start",
                "lower",
                "s_50000",
                peer_metric="",
            ),
            Row(
                "cost of resuming per step at 50,000 steps against 10,000",
                "×",
                "lower",
                "us_per_step_50000",
                over="us_per_step_10000",
                peer_metric="",
            ),
        ),
        (Dbos("replay", {"kind": "history", "count": 10_000}, {"count": 200}, only_wal=True),),
        rounds=1,
    ),
)
