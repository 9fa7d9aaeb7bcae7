"""Measure Holdfast beside its best peers: ``python -m benchmarks``. Prints a table and writes ``results.json``."""

from __future__ import annotations

import argparse
import json
import shutil
import signal
import sys
import tempfile
from pathlib import Path
from typing import Any

from benchmarks import machine
from benchmarks.cases import ALL
from benchmarks.emulator import dynamodb_local
from benchmarks.environment import SYSTEMS, PeerMissingError, System, interpreter
from benchmarks.plan import Case
from benchmarks.report import RowData, rows_of, table
from benchmarks.rounds import Rounds, system_of

HERE = Path(__file__).parent
RESULTS = HERE / "results.json"

DESCRIPTION = """Measure Holdfast, and beside it in the same run DBOS on SQLite, a library too, and Restate, a server
that is called over HTTP on loopback and calls its handlers so; what is done is synced to the disk on all sides.
The cases whose names begin with "asl" are state machines, beside moto's interpreter of them, which is not durable.
The cases whose names begin with "aws" are beside what AWS offers: its durable SDK on its local runner, and Powertools'
idempotency. They need Java and npm, for the one DynamoDB Local that both sides share; without, they are left out.
Each figure is the median of several rounds in fresh processes. The ratio is to the best of the peers and of their ways
to do the work, and above 1 where we are better. Numbers of two runs, or of two machines, do not compare: ratios do."""

EXAMPLES = """examples:
  python -m benchmarks                              all of it: about an hour, and benchmarks/results.json
  python -m benchmarks --only children --only timer some cases; results.json stays as it is
  python -m benchmarks --only aws                   beside AWS's durable SDK and Powertools, on DynamoDB Local
  python -m benchmarks --only asl-                  state machines, beside moto; python -m benchmarks.asl too
  python -m benchmarks --quick --no-peers           a first look, in a minute
  python -m benchmarks --huge --only 100,000        100,000 workflows asleep in one process
"""


def _names() -> str:
    return " and ".join(system.name for system in SYSTEMS)


def parse(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks",
        description=DESCRIPTION,
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--only", metavar="NAME", action="append", help="cases whose name, group or row has this in it")
    parser.add_argument("--quick", action="store_true", help="one round, a tenth of the work: shows that it runs")
    parser.add_argument("--no-peers", action="store_true", help=f"without {_names()}")
    parser.add_argument("--huge", action="store_true", help="also what takes minutes and gigabytes")
    parser.add_argument("--rounds", type=int, metavar="N", help="so many rounds of every case")
    parser.add_argument("--json", action="store_true", help="print the results as JSON, not as a table")
    parser.add_argument("--output", type=Path, metavar="FILE", help="write the results here; else only a complete run")
    parser.add_argument("--list", action="store_true", help="name the cases and stop")
    return parser.parse_args(arguments)


def main(arguments: list[str] | None = None) -> int:
    options = parse(arguments)
    cases = [case for case in ALL if _wanted(case, options)]
    if options.list:
        print("\n".join(f"{case.group:16}{case.name}" for case in cases))
        return 0
    if not cases:
        print("no case has such a name; --list names them", file=sys.stderr)
        return 2
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # a measurement under way, and its server, end with us
    folder = Path(tempfile.mkdtemp(prefix=".run-", suffix=".tmp", dir=HERE))  # beside us: a disk, not memory
    try:
        with dynamodb_local(cases) as endpoint:
            possible = [case for case in cases if endpoint or not case.emulator]
            results, failures = _measure(possible, folder, options, endpoint)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    text = json.dumps(results, indent=2, ensure_ascii=False) + "\n"
    print(text if options.json else _shown(results))
    partly = options.only or options.quick or failures or len(possible) < len(cases)
    complete = not (partly or len(results["peers"]) < len(SYSTEMS))
    if options.output or complete:
        (options.output or RESULTS).write_text(text, encoding="utf-8")
    else:
        print(f"{RESULTS.name} is left as it is: this was no complete run", file=sys.stderr)
    for failure in failures:
        print(f"failed: {failure}", file=sys.stderr)
    return 1 if failures else 0


def _wanted(case: Case, options: argparse.Namespace) -> bool:
    if options.only:
        return any(case.matches(name) for name in options.only) and (options.huge or not case.only_huge)
    return options.huge or not case.only_huge


def _measure(
    cases: list[Case], folder: Path, options: argparse.Namespace, endpoint: str | None
) -> tuple[dict[str, Any], list[str]]:
    peers = {} if options.no_peers else _peers(cases)
    rounds = Rounds(folder, peers, quick=options.quick, rounds=options.rounds, endpoint=endpoint)
    sync_before, load_before = machine.sync_us(folder), machine.load()
    rows: list[RowData] = []
    failures: list[str] = []
    for place, case in enumerate(cases, start=1):
        print(f"[{place}/{len(cases)}] {case.group}", file=sys.stderr, flush=True)
        measured = rounds.measure(case)
        rows += rows_of(measured)
        failures += measured.failures
    noise = {
        "sync_us": [round(sync_before), round(machine.sync_us(folder))],
        "load": [load_before, machine.load()],
    }
    named = [{"name": system.name, "version": system.version, "remark": system.remark} for system in peers]
    return {**machine.described(), "quick": options.quick, "peers": named, "noise": noise, "rows": rows}, failures


def _peers(cases: list[Case]) -> dict[System, str]:
    """The peers that these cases ask, each with its interpreter; one that cannot be installed is left out aloud."""
    peers = {}
    for system in SYSTEMS:
        if any(system_of(peer) == system for case in cases for peer in case.peers):
            try:
                peers[system] = interpreter(system)
            except PeerMissingError as reason:
                print(f"{system.name} cannot be installed, so it is left out: {reason}", file=sys.stderr)
    return peers


def _shown(results: dict[str, Any]) -> str:
    where = results["machine"]
    before, after = results["noise"]["sync_us"]
    head = [
        f"Holdfast at {results['commit']}",
        *(f"{peer['name']} {peer['version']}: {peer['remark']}" for peer in results["peers"]),
        f"{where['processors']} × {where['processor']}, {where['system']}",
        f"{results['python']}, SQLite {results['sqlite']}",
        f"fsync {results['fsync']}; a sync takes {before} µs before the run, {after} µs after; {results['date']}",
    ]
    if results["quick"]:
        head.append("quick: one round of a tenth of the work that the names say. Not to be quoted")
    return "\n".join([*head, "", table(results["rows"])])


if __name__ == "__main__":
    sys.exit(main())
