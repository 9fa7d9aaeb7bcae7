"""The checks of ``holdfast doctor``: each examines one thing and finds it ok, worth a warning, or failed."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

from holdfast.cli.checks.executions import check_executions, count_executions
from holdfast.cli.checks.file import check_file
from holdfast.cli.checks.finding import FAIL, OK, WARN, Finding
from holdfast.cli.checks.messages import check_messages
from holdfast.cli.checks.processes import check_processes, check_stopped_beside
from holdfast.cli.checks.services import check_services

if TYPE_CHECKING:
    from holdfast.kernel.runtime import Runtime


async def check_work(runtime: Runtime, known: Collection[str] | None) -> list[Finding]:
    """Whether a home makes progress. ``known`` are the workflows that have code here, if code was loaded."""
    counted = await count_executions(runtime.home, runtime.clock.now_ms())
    return [
        *await check_executions(runtime.home, counted, known),
        *await check_messages(runtime),
        *await check_processes(runtime, counted.unfinished.total()),
    ]


__all__ = ["FAIL", "OK", "WARN", "Finding", "check_file", "check_services", "check_stopped_beside", "check_work"]
