"""All cases, in the order of the report.

What is measured in a process of its own does not import this: the other groups would count as part of its start.
"""

from __future__ import annotations

from benchmarks.groups import (
    actors,
    asl,
    aws_idempotency,
    aws_startup,
    aws_workflows,
    caching,
    calls,
    commits,
    fanout,
    flow,
    idempotency,
    queueing,
    recovery,
    replay,
    residency,
    startup,
    steps,
    streams,
    throughput,
    timers,
)
from benchmarks.plan import Case

ALL: tuple[Case, ...] = (
    *throughput.CASES,
    *steps.CASES,
    *fanout.CASES,
    *queueing.CASES,
    *flow.CASES,
    *calls.CASES,
    *timers.CASES,
    *actors.CASES,
    *streams.CASES,
    *idempotency.CASES,
    *recovery.CASES,
    *replay.CASES,
    *residency.CASES,
    *startup.CASES,
    *commits.CASES,
    *caching.CASES,
    *asl.CASES,
    *aws_workflows.CASES,
    *aws_idempotency.CASES,
    *aws_startup.CASES,
)
