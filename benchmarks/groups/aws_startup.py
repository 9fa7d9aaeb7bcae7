"""A cold start of a Lambda function, as far as Python goes: a fresh interpreter imports a handler, and calls it once.

Each handler is what the documentation of its side begins with. AWS's own start of an environment is not in it.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from benchmarks.emulator import new_home
from benchmarks.plan import Case, Durable, Ours, Params, Powertools, Row

MEASURE_COLD = Path(__file__).parents[1] / "peers" / "measure_cold.py"


def workflow(_params: Params) -> Any:
    """A function with a workflow: only imported, because the SDK has no service here that would call it."""
    return _cold("cold_workflow", "memory://"), {}


async def idempotent(params: Params) -> Any:
    """A function with an idempotent handler, and its first call, on DynamoDB Local; botocore is in it."""
    return _cold("cold_idempotent", await new_home(params["endpoint"])), {}


def _cold(module: str, home: str) -> dict[str, float]:
    command = [sys.executable, str(MEASURE_COLD), module]
    environment = {**os.environ, "HOLDFAST_URL": home}
    return json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE, env=environment).stdout)


CASES = (
    Case(
        "aws-cold-workflow",
        "aws_startup",
        (Ours("workflow"),),
        (
            Row("import of a function with a workflow", "ms", "lower", "cold_import_ms"),
            Row("processor time of it", "ms", "lower", "cold_cpu_ms"),
            Row("modules of it", "modules", "lower", "cold_modules"),
            Row("memory of it", "MB", "lower", "cold_rss_mb"),
        ),
        (Durable("cold"),),
        rounds=7,
    ),
    Case(
        "aws-cold-idempotent",
        "aws_startup",
        (Ours("idempotent"),),
        (
            Row("import of an idempotent function", "ms", "lower", "cold_import_ms"),
            Row("processor time of the idempotent one", "ms", "lower", "cold_cpu_ms"),
            Row("modules of the idempotent one", "modules", "lower", "cold_modules"),
            Row("memory of the idempotent one", "MB", "lower", "cold_rss_mb"),
            Row("import and its first call", "ms", "lower", "first_ms"),
            Row("processor time of both", "ms", "lower", "first_cpu_ms"),
            Row("modules after its first call", "modules", "lower", "first_modules"),
            Row("memory after its first call", "MB", "lower", "first_rss_mb"),
        ),
        (Powertools("cold"),),
        rounds=7,
        emulator=True,
    ),
)
