"""``python -m tests.torture``: kill, stop and race real processes on one SQLite file, then compare the ledgers.

The exit status is 0 only if everything that was to happen has happened, and every promise was kept.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import platform
import shutil
import signal
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import apsw
from tests.torture.crew import Crew, Options
from tests.torture.evidence import gather
from tests.torture.ledger import Ledger
from tests.torture.plants import PLANTS
from tests.torture.report import Progress, show
from tests.torture.verdict import judge, log_complaints

from holdfast.opening import open_home

FULL: Final = {"kills": 220, "zombies": 60, "workers": 4, "executions": 1_500, "rate": 14.0, "seconds": 480.0}
QUICK: Final = {"kills": 14, "zombies": 8, "workers": 4, "executions": 60, "rate": 20.0, "seconds": 180.0}
HEALING_SECONDS: Final = {False: 60.0, True: 40.0}


def options(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.torture", description=__doc__)
    parser.add_argument("--seed", type=int, default=1, help="of inputs, faults and their order")
    parser.add_argument("--quick", action="store_true", help="a small run, about 15 s")
    parser.add_argument("--kills", type=int, help="kill -9 at named points; 0 with --zombies 0: calm")
    parser.add_argument("--zombies", type=int, help="stops at named points, resumed when the lease has lapsed")
    parser.add_argument("--workers", type=int)
    parser.add_argument("--executions", type=int, help="at least so many are started")
    parser.add_argument("--rate", type=float, help="executions started per second")
    parser.add_argument("--seconds", type=float, help="the run is red if not everything has happened by then")
    parser.add_argument("--healing", type=float, help="seconds in which all must end after that")
    parser.add_argument("--plant", choices=sorted(PLANTS), default="", help="plant a bug: the run must be red")
    parser.add_argument("--json", type=Path, metavar="PATH", help="write the report there too")
    parser.add_argument("--keep", action="store_true", help="keep the files")
    given = parser.parse_args(arguments)
    for name, value in (QUICK if given.quick else FULL).items():
        if getattr(given, name) is None:
            setattr(given, name, value)
    if given.healing is None:
        given.healing = HEALING_SECONDS[given.quick]
    return given


async def prepare(folder: Path) -> None:
    """The home, with the table that the transactional steps write to."""
    home = await open_home(f"sqlite:///{folder / 'home.db'}")
    await home.doorbell.close()
    await home.store.close()
    with contextlib.closing(apsw.Connection(str(folder / "home.db"))) as connection:
        connection.execute("CREATE TABLE moves (number INTEGER PRIMARY KEY, execution TEXT)")


async def run(given: argparse.Namespace, folder: Path) -> dict[str, Any]:
    """One run, and its report."""
    task = asyncio.current_task()
    assert task is not None
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
    await prepare(folder)
    ledger = Ledger.create(folder / "ledger.db")
    wanted = {name: getattr(given, name) for name in Options.__struct_fields__}
    crew = Crew(Options(**wanted), folder)
    async with Progress(crew, ledger):
        await crew.run()
    evidence = gather(folder, ledger)
    complaints = {"the_run_went_as_planned": crew.complaints, "logs_are_clean": log_complaints(folder)} | judge(
        evidence
    )
    kills, _ = crew.deck.count("kill")
    stops, _ = crew.deck.count("stop")
    (attempts,) = ledger.read("SELECT count(*) FROM attempts")[0]
    (mismatches,) = ledger.read("SELECT count(*) FROM mismatches")[0]
    complaints["the_run_went_as_planned"] += too_rare(crew.counts, stops)
    ledger.close()
    return {
        "options": wanted,
        "machine": f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}, "
        f"SQLite {apsw.sqlite_lib_version()}",
        "seconds": round(crew.seconds, 1),
        "points": {
            f"{kind}:{moment}": {a: crew.deck.happened[kind, moment, a] for a in ("kill", "stop")}
            for kind, moment, _ in sorted(crew.deck.wanted)
        },
        "counters": {
            "kills at points": kills,
            "kills from outside": crew.counts["outside_kills"],
            "stopped from outside": crew.counts["outside_stops"],
            "drained": crew.counts["drains"],
            "zombies": stops,
            "zombies that were fenced": crew.counts["zombies_fenced"],
            "fenced": crew.counts["fenced"],
            "taken over": crew.counts["taken over"],
            "processes": crew.counts["lives"],
            "executions accepted": len(evidence.accepted),
            "executions ended, with children": len(evidence.executions),
            "journal segments": sum(len(each.segments) for each in evidence.executions.values()),
            "effects attempted": attempts,
            "effects accepted": len(evidence.effects),
            "starts with other input refused": mismatches,
            "healed in ms": crew.counts["healing_ms"],
        },
        "complaints": {name: each for name, each in complaints.items() if each},
    }


def too_rare(counts: Mapping[str, int], stops: int) -> list[str]:
    """What happened so rarely that nothing was proven. Not every zombie has held a lease when it was stopped."""
    least = {"zombies_fenced": stops // 4, "fenced": stops // 2, "taken over": stops}
    return [f"{what} {counts[what]} times, not {number}" for what, number in least.items() if counts[what] < number]


def main(arguments: Sequence[str]) -> int:
    given = options(arguments)
    folder = Path(tempfile.mkdtemp(prefix="holdfast-torture-"))
    try:
        report = asyncio.run(run(given, folder))
    finally:
        if given.keep:
            print(f"kept in {folder}")
        else:
            shutil.rmtree(folder, ignore_errors=True)
    show(report)
    if given.json is not None:
        given.json.write_text(json.dumps(report, indent=2))
    return 1 if report["complaints"] else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
