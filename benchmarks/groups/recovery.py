"""A process dies by ``kill -9`` with workflows in flight: how soon its successor has finished them all."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from typing import Any

from benchmarks.plan import Case, Dbos, Ours, Params, Row
from benchmarks.workload import Workload, in_lanes

WARM_UP = 512
LANES = 64
FAR_SECONDS = 6.0
"""Well above ``Limits.near_seconds``: whoever sleeps longer than that gives its lease back."""


def recovery(params: Params) -> Any:
    """From the start of the second process to the end of the last workflow."""
    overdue_at = stage("begin", params)
    time.sleep(max(0, overdue_at - time.time()))
    began = time.time()
    return {f"{params['kind']}_s": stage("finish", params) - began}, {"synchronous": 2, "journal_mode": "wal"}


def stage(name: str, params: Params, group: str = "recovery") -> float:
    """Run one process of a crash test; what it says is a time. The first is killed as soon as it has said it."""
    command = [sys.executable, "-m", "benchmarks.run_ours", group, name, json.dumps(params)]
    child = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert child.stdout is not None
        line = child.stdout.readline()
    finally:
        if name == "begin":
            child.send_signal(signal.SIGKILL)
        child.wait()
    if not line:
        raise SystemExit(f"the process {name!r} of {group} ended without an answer")
    return float(line)


async def begin(params: Params) -> None:
    """Start the workflows; when all are in flight, say from when on every timer is overdue, and wait to be killed."""
    it, count = Workload(params["folder"], hold=True), params["count"]
    async with it.worker():
        each = await in_lanes(it.one_step, range(WARM_UP), LANES) / WARM_UP
        seconds = each * count * 3 + FAR_SECONDS  # so that the first still sleeps when the last begins
        began = time.time()
        if params["kind"] == "asleep":
            await in_lanes(lambda number: it.asleep.start(number, seconds), range(count), LANES)
            await it.told("suspended", count)
            assert time.time() < began + seconds - 0.5, "the first timer is due before the process is killed"
        else:
            await in_lanes(it.in_step.start, range(count), LANES)
            await it.begun(count)
        print(time.time() + (seconds if params["kind"] == "asleep" else 0), flush=True)
        await it.told("killed", 1)


async def finish(params: Params) -> None:
    """Say when the last workflow has ended."""
    it = Workload(params["folder"])
    async with it.worker():
        await it.told("ended", params["count"])
        print(time.time(), flush=True)
        await it.check_completed(it.asleep if params["kind"] == "asleep" else it.in_step, params["count"])


_ASLEEP = {"kind": "asleep", "count": 1_000}
_IN_STEP = {"kind": "in_step", "count": 1_000}
_QUICK = {"count": 100}

CASES = (
    Case(
        "recovery-asleep",
        "recovery",
        (Ours("recovery", _ASLEEP, _QUICK),),
        (
            Row(
                "recovery of 1,000 sleepers, timers overdue, after kill -9",
                "s from process start",
                "lower",
                "asleep_s",
                aim=1,
                peer_metric="seconds",
            ),
        ),
        (Dbos("recovery", _ASLEEP, _QUICK, only_wal=True),),
        peer_rounds=2,
    ),
    Case(
        "recovery-in-step",
        "recovery",
        (Ours("recovery", _IN_STEP, _QUICK),),
        (
            Row(
                "recovery of 1,000 in the middle of a step, after kill -9",
                "s from process start",
                "lower",
                "in_step_s",
                aim=1,
                peer_metric="seconds",
            ),
        ),
        (Dbos("recovery", _IN_STEP, _QUICK, only_wal=True),),
        peer_rounds=2,
    ),
)
