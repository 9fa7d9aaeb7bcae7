"""The checks of ``holdfast doctor``: each examines one thing and finds it ok, worth a warning, or failed."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, Final

from holdfast.cli.checks.executions import check_due, check_executions, count_executions
from holdfast.cli.checks.file import check_file
from holdfast.cli.checks.finding import FAIL, OK, WARN, Finding
from holdfast.cli.checks.limits import check_limits
from holdfast.cli.checks.messages import check_messages, check_parked
from holdfast.cli.checks.processes import check_processes, check_stopped_beside
from holdfast.cli.checks.queues import check_queues
from holdfast.cli.checks.services import check_services

if TYPE_CHECKING:
    from holdfast.kernel.runtime import Runtime


NOT_READ: Final = (
    "what ended, waits or is held was not counted, nor halted actors, outboxes, schedules and processes: that takes "
    "reading the whole table, which is billed. holdfast doctor --scan does it"
)


async def check_work(
    runtime: Runtime, known: Collection[str] | None, *, scan: bool = False, disk_is_full: bool = False
) -> list[Finding]:
    """Whether a home makes progress. ``known`` are the workflows that have code here, if code was loaded. Where there
    is no census, only what is due is read, unless the caller wants to ``scan``. While the ``disk_is_full`` no
    process can renew a lease.
    """
    if runtime.home.census is None and not scan:
        about_the_due = await check_due(runtime.home, runtime.clock.now_ms(), known)
        about_queues = [*await check_queues(runtime), *await check_limits(runtime)]
        return [*about_the_due, *about_queues, await check_parked(runtime.home.store), Finding(OK, "counts", NOT_READ)]
    counted = await count_executions(runtime.home, runtime.clock.now_ms())
    return [
        *await check_executions(runtime.home, counted, known),
        *await check_queues(runtime),
        *await check_limits(runtime),
        *await check_messages(runtime),
        *await check_processes(runtime, counted.unfinished.total(), disk_is_full=disk_is_full),
    ]


__all__ = ["FAIL", "OK", "WARN", "Finding", "check_file", "check_services", "check_stopped_beside", "check_work"]
