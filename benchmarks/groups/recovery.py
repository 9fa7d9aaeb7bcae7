"""A process dies by ``kill -9`` with workflows in flight: how soon its successor has finished them all."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from typing import Any

from benchmarks.plan import Case, Ours, Params, Peer, Row
from benchmarks.workload import Workload


def recovery(params: Params) -> Any:
    """From the start of the second process to the end of the last workflow."""
    stage("begin", params)
    if params["kind"] == "asleep":
        time.sleep(params["sleep_seconds"])  # every timer is overdue when the successor starts
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
    """Start the workflows, say so when all are in flight, and wait to be killed."""
    it, count = Workload(params["folder"], hold=True), params["count"]
    async with it.worker():
        for number in range(count):
            if params["kind"] == "asleep":
                await it.asleep.start(number, params["sleep_seconds"], id=f"run-{number}")
            else:
                await it.in_step.start(number, id=f"run-{number}")
        if params["kind"] == "asleep":
            await it.told("suspended", count)
        else:
            await it.begun(count)
        print(time.time(), flush=True)
        await it.told("killed", 1)


async def finish(params: Params) -> None:
    """Say when the last workflow has ended."""
    it = Workload(params["folder"])
    async with it.worker():
        await it.told("ended", params["count"])
        print(time.time(), flush=True)
        await it.check_completed(it.asleep if params["kind"] == "asleep" else it.in_step, params["count"])


_ASLEEP = {"kind": "asleep", "count": 1_000, "sleep_seconds": 4.0}
_IN_STEP = {"kind": "in_step", "count": 1_000}
_QUICK = {"count": 100}

CASES = (
    Case(
        "recovery-asleep",
        "recovery",
        (Ours("recovery", _ASLEEP, {**_QUICK, "sleep_seconds": 1.0}),),
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
        (Peer("recovery", _ASLEEP, _QUICK, only_wal=True),),
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
        (Peer("recovery", _IN_STEP, _QUICK, only_wal=True),),
        peer_rounds=2,
    ),
)
