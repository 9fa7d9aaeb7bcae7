"""Measuring a case: rounds of ours, then the peers, each time in fresh processes on fresh files.

Interleaving spreads what else goes on on the machine over both; the median of the rounds is reported, with the least
and the most. Where a peer can do a thing in several ways, the best way counts: the first round tries them all, and the
others repeat those that were the best or near it.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import statistics
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.emulator import child_environment
from benchmarks.environment import DBOS, DURABLE, MOTO, POWERTOOLS, RESTATE, SCRIPTS, System
from benchmarks.plan import (
    IMPORTED,
    Better,
    Case,
    Dbos,
    Durable,
    Moto,
    Ours,
    Params,
    Peer,
    Powertools,
    Restate,
    Row,
    Values,
)

ROOT = Path(__file__).parents[1]
MEASURE_IMPORT = SCRIPTS / "measure_import.py"

LIMIT_SECONDS = 600
"""No measurement takes longer; one that does has hung."""

NEAR_BEST = 1.3
"""A way that was worse than the best by this factor is not tried again: rounds differ by less."""

JOURNALS = {f"{DBOS.name}, default journal": False, f"{DBOS.name}, WAL": True}
WEB_SERVERS = ("hypercorn", "granian")
"""What Restate's documentation runs its handlers on, and what was faster in most of our measurements."""


class MeasurementFailedError(Exception):
    """A measurement ended without an answer; the message has its last words."""


@dataclass(slots=True)
class Samples:
    """What the rounds have yielded: by metric, and for a peer by its way of doing it too."""

    values: dict[str, dict[str, list[float]]] = field(default_factory=dict)
    notes: dict[str, Any] = field(default_factory=dict)

    def add(self, values: Values, notes: dict[str, Any], way: str = "") -> None:
        """Take in the answer of one measurement."""
        self.notes |= notes
        for metric, value in values.items():
            samples = value if isinstance(value, list) else [value]
            self.values.setdefault(metric, {}).setdefault(way, []).extend(samples)

    def best(self, metric: str, better: Better) -> tuple[str, list[float]] | None:
        """The best way and its samples, by their median."""
        ways = self.values.get(metric)
        if not ways:
            return None
        choose = max if better == "higher" else min
        return choose(ways.items(), key=lambda item: statistics.median(item[1]))

    def is_near_best(self, way: str, rows: Sequence[Row]) -> bool:
        """Whether a way was the best in one of these rows, or near it; and whether it is not known yet."""
        figures = [(row, self.best(row.at_the_peer, row.better)) for row in rows]
        known = [(self.values[row.at_the_peer].get(way), best[1]) for row, best in figures if best is not None]
        return not known or any(own is None or _is_near(own, best) for own, best in known)


@dataclass(slots=True)
class Measured:
    """All samples of one case; ``failures`` are measurements that gave no answer, in words."""

    case: Case
    ours: Samples = field(default_factory=Samples)
    peers: dict[str, Samples] = field(default_factory=dict)
    failures: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Rounds:
    """How to measure: quickly or not, with which peers (an interpreter each), and where the files may lie.

    ``endpoint`` is the address of DynamoDB Local, for the cases that need it.
    """

    folder: Path
    peers: dict[System, str]
    quick: bool = False
    rounds: int | None = None
    endpoint: str | None = None

    def measure(self, case: Case) -> Measured:
        """Run all rounds of a case."""
        measured = Measured(case)
        rounds = self.rounds or (1 if self.quick else case.rounds)
        peer_rounds = min(rounds, case.peer_rounds or rounds)
        for number in range(1, rounds + 1):
            _tell(f"  {case.name}, round {number} of {rounds}:")
            for run in case.ours:
                self._run_ours(run, measured)
            if number <= peer_rounds:
                for peer in case.peers:
                    self._run_peer(peer, number, measured)
            _tell("\n")
        return measured

    def _run_ours(self, run: Ours, measured: Measured) -> None:
        with _fresh(self.folder) as folder:
            params = {**run.params, **(run.quick if self.quick else {}), **self._places(folder, measured.case)}
            module = [sys.executable, "-m", "benchmarks.run_ours", measured.case.group]
            self._take_in([*module, run.function, json.dumps(params)], "ours", "", measured.ours, measured)

    def _run_peer(self, peer: Peer, number: int, measured: Measured) -> None:
        python = self.peers.get(system_of(peer))
        if python is None:
            return
        for name, way, params in runs_of(peer, number):
            samples = measured.peers.setdefault(name, Samples())
            if number > 1 and not samples.is_near_best(way, measured.case.rows):
                continue
            with _fresh(self.folder) as folder:
                asked = {**params, **(peer.quick if self.quick else {}), **self._places(folder, measured.case)}
                self._take_in(_peer_command(python, peer, asked), f"{name} {way}".strip(), way, samples, measured)

    def _places(self, folder: Path, case: Case) -> Params:
        return {"folder": str(folder), **({"endpoint": self.endpoint} if case.emulator else {})}

    def _take_in(self, command: list[str], name: str, way: str, samples: Samples, measured: Measured) -> None:
        try:
            answer = _answer(command, self.folder)
        except MeasurementFailedError as error:
            measured.failures.append(f"{measured.case.name}, {name}: {error}")
            _tell(f" {name} FAILED;")
        else:
            samples.add(answer["values"], answer["notes"], way)
            _tell(f" {name} {_brief(answer['values'])};")


def _is_near(some: list[float], best: list[float]) -> bool:
    least, most = sorted((statistics.median(some), statistics.median(best)))
    return most <= NEAR_BEST * least


def system_of(peer: Peer) -> System:
    """Whose function it is."""
    match peer:
        case Dbos():
            return DBOS
        case Restate():
            return RESTATE
        case Durable():
            return DURABLE
        case Powertools():
            return POWERTOOLS
        case Moto():
            return MOTO


def runs_of(peer: Peer, number: int) -> Iterator[tuple[str, str, Params]]:
    """What is to be run of a peer in a round, the first being 1: the name in the report, the way, the parameters."""
    match peer:
        case Dbos():
            for name, wal in JOURNALS.items():
                if wal or (number == 1 and not peer.only_wal):
                    params = {**peer.params, **({} if wal else peer.default_journal), "wal": wal}
                    yield from ((name, way, {**params, **override}) for way, override in peer.variants.items())
        case Restate(function=function):
            for server in WEB_SERVERS[: 1 if function == IMPORTED else None]:
                yield RESTATE.name, server, {**peer.params, "server": server}
        case Durable() | Powertools() | Moto():
            yield system_of(peer).name, "", peer.params


def _peer_command(python: str, peer: Peer, params: Params) -> list[str]:
    system = system_of(peer)
    if peer.function == IMPORTED:
        return [python, str(MEASURE_IMPORT), *system.imported]
    return [python, str(system.script), peer.function, json.dumps(params)]


def _answer(command: list[str], folder: Path) -> dict[str, Any]:
    """Run a measurement in a session of its own and read its last line. Nothing of it is left behind."""
    with (folder / "stderr").open("w+", encoding="utf-8") as stderr:
        process = subprocess.Popen(
            command,
            cwd=ROOT,
            env=child_environment(),
            stdout=subprocess.PIPE,
            stderr=stderr,
            text=True,
            start_new_session=True,
        )
        try:
            said, _ = process.communicate(timeout=LIMIT_SECONDS)
        except BaseException as error:
            os.killpg(process.pid, signal.SIGKILL)  # safe: until it is waited for, its number is not used again
            process.wait()
            if not isinstance(error, subprocess.TimeoutExpired):
                raise
            said = ""
        stderr.seek(0)
        complaints = stderr.read().strip().splitlines()
    lines = said.strip().splitlines()
    if process.returncode != 0 or not lines:
        raise MeasurementFailedError(complaints[-1] if complaints else f"no answer within {LIMIT_SECONDS} s")
    answer: dict[str, Any] = json.loads(lines[-1])
    return answer


@contextlib.contextmanager
def _fresh(folder: Path) -> Iterator[Path]:
    place = folder / "files"
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir()
    try:
        yield place
    finally:
        shutil.rmtree(place, ignore_errors=True)


def _brief(values: Values) -> str:
    first = next(iter(values.values()))
    return f"{statistics.median(first) if isinstance(first, list) else first:.4g}"


def _tell(text: str) -> None:
    print(text, end="", file=sys.stderr, flush=True)
