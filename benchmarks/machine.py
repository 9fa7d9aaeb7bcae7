"""Where and on what a run was made: without this a number means nothing."""

from __future__ import annotations

import os
import platform
import statistics
import subprocess
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import apsw

ROOT = Path(__file__).parents[1]

PROBES = 200
PROBE_BYTES = 4096


def described() -> dict[str, Any]:
    """The commit, the machine and the software."""
    return {
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "commit": _commit(),
        "machine": {
            "processor": _processor(),
            "processors": os.cpu_count(),
            "system": f"{platform.system()} {platform.release()}",
        },
        "python": f"{platform.python_implementation()} {platform.python_version()}",
        "sqlite": apsw.sqlite_lib_version(),
        "fsync": "on: WAL, synchronous=FULL, asserted in every measurement",
    }


def sync_us(folder: Path) -> float:
    """What it takes to append a page to a file and have it on the disk: the median in microseconds."""
    path, took = folder / "probe", []
    with path.open("wb", buffering=0) as file:
        for _ in range(PROBES):
            began = time.perf_counter()
            file.write(b"x" * PROBE_BYTES)
            os.fsync(file.fileno())
            took.append((time.perf_counter() - began) * 1e6)
    path.unlink()
    return statistics.median(took)


def load() -> float | None:
    """The load average of the last minute: other work on the machine makes the numbers worse."""
    try:
        return round(os.getloadavg()[0], 2)
    except OSError:
        return None


def _commit() -> str:
    commit = _git("rev-parse", "HEAD") or "unknown"
    changed = [line for line in _git("status", "--porcelain", "--", "src").splitlines() if line]
    return f"{commit} with uncommitted changes" if changed else commit


def _git(*arguments: str) -> str:
    try:
        return subprocess.run(("git", *arguments), cwd=ROOT, check=True, capture_output=True, text=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return ""


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
        return next(line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor() or platform.machine()
