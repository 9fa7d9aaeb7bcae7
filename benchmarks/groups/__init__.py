"""The cases, a module per group of rows. ``ALL`` is their order in the report."""

from __future__ import annotations

from benchmarks.groups import (
    actors,
    calls,
    commits,
    fanout,
    idempotency,
    queueing,
    recovery,
    replay,
    residency,
    startup,
    steps,
    throughput,
    timers,
)
from benchmarks.plan import Case

ALL: tuple[Case, ...] = (
    *throughput.CASES,
    *steps.CASES,
    *fanout.CASES,
    *queueing.CASES,
    *calls.CASES,
    *timers.CASES,
    *actors.CASES,
    *idempotency.CASES,
    *recovery.CASES,
    *replay.CASES,
    *residency.CASES,
    *startup.CASES,
    *commits.CASES,
)
