"""``python -m tests.fuzz``: many hostile inputs for everything that takes any, and how many they were.

The exit status is 0 only if each of them met an error of Holdfast's own or none at all, within a second and 256 MB.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from multiprocessing import get_context

from tests.fuzz.feeding import Fed, feed_named
from tests.fuzz.targets import TARGETS

INPUTS = 200_000


def options(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--inputs", type=int, default=INPUTS, help="how many of them, over all targets together")
    parser.add_argument("--seed", type=int, default=time.time_ns() % 2**32, help="where they begin; else by the time")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="processes that feed them")
    parser.add_argument("--only", action="append", metavar="TARGET", help=", ".join(each.name for each in TARGETS))
    return parser.parse_args(arguments)


def main(arguments: Sequence[str]) -> int:
    chosen = options(arguments)
    targets = [each for each in TARGETS if not chosen.only or each.name in chosen.only]
    weights = sum(each.weight for each in targets)
    print(f"seed {chosen.seed}", flush=True)
    began, total, failed = time.monotonic(), 0, 0
    with ProcessPoolExecutor(chosen.jobs, mp_context=get_context("spawn"), max_tasks_per_child=1) as pool:
        asked = {
            pool.submit(feed_named, each.name, -(-chosen.inputs * each.weight // weights), chosen.seed): each.name
            for each in targets
        }
        for future in as_completed(asked):
            name = asked[future]
            match future.result():
                case str(why):
                    failed += 1
                    print(f"{name:10} RED\n{why[-3_000:]}", flush=True)
                case Fed(inputs=inputs, longest_seconds=longest, most_bytes=most):
                    total += inputs
                    print(
                        f"{name:10} {inputs:>8,} inputs   longest {longest * 1000:6.0f} ms   "
                        f"most memory {most / 2**20:4.0f} MB",
                        flush=True,
                    )
    print(f"{total:,} inputs in {time.monotonic() - began:,.0f} s: {'RED' if failed else 'GREEN'}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
