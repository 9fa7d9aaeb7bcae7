"""``python -m tests.simulation``: many seeds of simulated processes under faults, or one of them, line by line.

The exit status is 0 only if no seed failed, and every class of fault, and whatever else users and operators do, has
happened.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import os
import sys
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import cache, partial

from tests.scenarios import (
    ACTOR_SCENARIOS,
    EVENT_SCENARIOS,
    LIMIT_SCENARIOS,
    QUEUE_SCENARIOS,
    SCENARIOS,
    SWARM_SCENARIOS,
)
from tests.scenarios.machines import MACHINE_SCENARIOS
from tests.simulation.report import explained

from holdfast.testing.swarm import Expectation, SwarmReport, expectations, run_seed, run_seeds, together

PORTION = 100
"""So many seeds are run before a line tells of them."""


POOLS = {
    "all": (
        *SCENARIOS,
        *ACTOR_SCENARIOS,
        *EVENT_SCENARIOS,
        *QUEUE_SCENARIOS,
        *SWARM_SCENARIOS,
        *MACHINE_SCENARIOS,
    ),
    "queues": QUEUE_SCENARIOS,
    "limits": LIMIT_SCENARIOS,
}
"""Of these scenarios each seed takes some. Those of limits are apart: they change what all others of a seed draw."""


@cache
def pool(of: str) -> tuple[Expectation, ...]:
    return expectations(POOLS[of])


def options(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.simulation", description=__doc__)
    parser.add_argument("--seeds", type=int, default=1_000, help="how many")
    parser.add_argument("--first", type=int, default=0, help="the first of them")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="real processes that run them")
    parser.add_argument("--seed", type=int, help="run only this one, and tell what happens in it")
    parser.add_argument("--of", choices=POOLS, default="all", help="which scenarios")
    parser.add_argument("--billed", action="store_true", help="each write is paid for in every seed, as on AWS")
    return parser.parse_args(arguments)


def show(seed: int, of: str, *, billed: bool) -> int:
    """Run one seed, and print its timeline."""

    def tell(who: str, what: str) -> None:
        print(f"{asyncio.get_running_loop().time():10.3f} s  {who}  {what}")

    run = run_seed(pool(of), seed, tell, billed=billed)
    print(run)
    print("RED" if run.violations else "GREEN")
    return 1 if run.violations else 0


def portions(first: int, count: int) -> Iterator[range]:
    for begin in range(first, first + count, PORTION):
        yield range(begin, min(begin + PORTION, first + count))


def run_portion(seeds: range, of: str = "all", *, billed: bool = False) -> SwarmReport:
    logging.disable(logging.CRITICAL)  # failed turns are logged, and are to be expected here
    return run_seeds(pool(of), seeds, billed=billed)


def run_many(given: argparse.Namespace) -> int:
    began = time.monotonic()
    reports: list[SwarmReport] = []
    with ProcessPoolExecutor(given.jobs) as workers:
        for report in workers.map(
            partial(run_portion, of=given.of, billed=given.billed), portions(given.first, given.seeds)
        ):
            reports.append(report)
            done = sum(each.seeds for each in reports)
            failed = sum(len(each.failures) for each in reports)
            print(f"{done} of {given.seeds} seeds, {failed} failed, {time.monotonic() - began:.0f} s", file=sys.stderr)
    whole = together(reports)
    print(explained(whole))
    whole.require_every_fault()
    if given.of == "all":
        whole.require_every_happening()
    print("RED" if whole.failures else "GREEN: every seed ended as it would have without faults")
    return 1 if whole.failures else 0


def main(arguments: Sequence[str]) -> int:
    given = options(arguments)
    return run_many(given) if given.seed is None else show(given.seed, given.of, billed=given.billed)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
