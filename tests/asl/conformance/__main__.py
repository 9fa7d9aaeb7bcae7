"""``python -m tests.asl.conformance FOLDER [-v]``: run all cases below a folder; the last line is the score."""

from __future__ import annotations

import argparse
import logging
import sys
from collections import Counter
from pathlib import Path

from tests.asl.conformance.cases import Outcome, cases_in
from tests.asl.conformance.kinds import check
from tests.asl.conformance.known import REASONS


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.asl.conformance", description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("-v", "--verbose", action="store_true", help="list each failure, with its difference")
    parser.add_argument("-k", metavar="TEXT", default="", help="only cases whose name or kind contains the text")
    given = parser.parse_args(arguments)
    outcomes = [
        Outcome(case, check(case))
        for case in cases_in(given.folder)
        if given.k in f"{case.get('name', '')} {case['kind']}"
    ]
    report(outcomes, verbose=given.verbose)
    return 0 if all(not outcome.differences for outcome in outcomes) else 1


def report(outcomes: list[Outcome], *, verbose: bool) -> None:
    failed = [outcome for outcome in outcomes if outcome.differences]
    if verbose:
        for outcome in failed:
            print(f"FAILED {outcome.name}: " + " | ".join(outcome.differences))
            if outcome.name in REASONS:
                print(f"       why: {REASONS[outcome.name]}")
    kinds = Counter(outcome.case["kind"] for outcome in outcomes)
    bad = Counter(outcome.case["kind"] for outcome in failed)
    recorded = [outcome for outcome in outcomes if outcome.case.get("aws_recorded")]
    for kind, count in sorted(kinds.items()):
        print(f"{kind}: {count - bad[kind]} of {count}")
    histories = [outcome for outcome in outcomes if "event_types" in outcome.case]
    same = sum(not outcome.differences for outcome in histories)
    print(f"histories, with the types of their events: {same} of {len(histories)}")
    print(f"recorded by AWS: {sum(not outcome.differences for outcome in recorded)} of {len(recorded)}")
    print(f"passed {len(outcomes) - len(failed)} of {len(outcomes)}")


if __name__ == "__main__":
    logging.disable(logging.CRITICAL)  # what fails here is told by its difference
    sys.exit(main(sys.argv[1:]))
