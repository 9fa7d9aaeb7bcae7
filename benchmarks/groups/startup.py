"""What it costs to import the package, and to have a worker."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from benchmarks.plan import Case, Dbos, Ours, Params, Restate, Row
from benchmarks.workload import Workload, rss_mb

MEASURE_IMPORT = Path(__file__).parents[1] / "peers" / "measure_import.py"


def imported(_params: Params) -> Any:
    """``import holdfast`` in a bare interpreter, and ``holdfast.App``: names are loaded when they are first used."""
    command = [sys.executable, str(MEASURE_IMPORT), "holdfast", "App"]
    return json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)["values"], {}


def worker(params: Params) -> Any:
    """A worker with the workflows of the benchmark registered, which has run one; from the start of its process."""
    command = [sys.executable, "-m", "benchmarks.run_ours", "startup", "open_worker", json.dumps(params)]
    began = time.time()
    answer = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)
    values, notes = answer["values"], answer["notes"]
    return {**values, "worker_ms": (notes.pop("ready_at") - began) * 1e3}, notes


async def open_worker(params: Params) -> Any:
    it = Workload(params["folder"])
    async with it.worker():
        assert await it.one_step(1) == 1
        ready_at = time.time()
        values = {"worker_modules": len(sys.modules), "worker_rss_mb": rss_mb()}
        return values, {**it.settings, "ready_at": ready_at}


CASES = (
    Case(
        "startup",
        "startup",
        (Ours("imported"), Ours("worker")),
        (
            Row("import", "ms", "lower", "import_ms", aim=60),
            Row("import and App", "ms", "lower", "use_ms"),
            Row("modules after import", "modules", "lower", "import_modules"),
            Row("memory after import and App", "MB", "lower", "import_rss_mb"),
            Row("process start to first workflow done", "ms", "lower", "worker_ms"),
            Row("modules of a worker", "modules", "lower", "worker_modules"),
            Row("memory of a worker", "MB", "lower", "worker_rss_mb", aim=35),
        ),
        (Dbos("imported", only_wal=True), Dbos("startup", only_wal=True), Restate("imported")),
        rounds=7,
    ),
)
