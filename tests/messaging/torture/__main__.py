"""``python -m tests.messaging.torture``: the relay's process is killed again and again, and deliveries arrive twice.

Actors publish in order, a client publishes events that stand alone, some of them twice. Each must be applied once, each
sender's in order, and nothing may be left. Prints its counters; the exit status tells the truth.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import Any

from tests.messaging.torture.points import PLANTS, POINTS
from tests.messaging.torture.shop import ALONE, Numbered, make
from tests.messaging.torture.staff import Staff
from tests.messaging.torture.verdict import judge

import holdfast as hf
from holdfast.messaging.outbox import ENTRY_PREFIX

QUICK = {"events": 200, "kills": 12, "doubled": 0.1}
FULL = {"events": 1_000, "kills": 50, "doubled": 0.05}
SENDERS = 8
ALONE_SHARE = 0.2
PATIENCE_SECONDS = 1.5
LONGEST_SECONDS_PER_KILL = 10.0
HEALING_SECONDS = 60.0


def options(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.messaging.torture", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a short run")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--events", type=int)
    parser.add_argument("--kills", type=int, help="so many times the relay's process is killed at a named point")
    parser.add_argument("--workers", type=int, default=3)
    parser.add_argument("--doubled", type=float, help="the share of deliveries that arrive twice")
    parser.add_argument("--plant", choices=PLANTS, default="", help="break the engine: the run must go red")
    parser.add_argument("--json", type=Path)
    given = parser.parse_args(arguments)
    for name, value in (QUICK if given.quick else FULL).items():
        if getattr(given, name) is None:
            setattr(given, name, value)
    return given


async def publish(app: hf.App, sender: Any, given: argparse.Namespace, staff: Staff, random: Random) -> Counter[str]:
    """Publish all events, as many between two kills as between any others. Answers how many each sender has sent."""
    sent: Counter[str] = Counter()
    for number in range(given.events):
        if staff.counts["kills"] < given.kills and number * given.kills // given.events > staff.counts["kills"]:
            await _a_kill(staff)
        if random.random() < ALONE_SHARE:
            event, id = Numbered(ALONE, sent[ALONE]), f"alone {sent[ALONE]}"
            for _ in range(1 + (random.random() < given.doubled)):
                await app.publish(event, id=id)
            sent[ALONE] += 1
        else:
            name = f"sender {random.randrange(SENDERS)}"
            await hf.send(sender.at(name).publish, 1)
            sent[name] += 1
    return sent


async def _a_kill(staff: Staff) -> None:
    """Wait for the next one, for a while: a worker that is to die may not have the outbox."""
    staff.killed.clear()
    with contextlib.suppress(TimeoutError):
        await asyncio.wait_for(staff.killed.wait(), PATIENCE_SECONDS)


async def heal(app: hf.App) -> bool:
    """Wait until nothing is left to do."""
    store = app.runtime().home.store
    for _ in range(int(HEALING_SECONDS * 10)):
        await asyncio.sleep(0.1)
        if (await store.query("out#torture", prefix=ENTRY_PREFIX, limit=1)).items:
            continue
        heads = (await store.due(2**62)).items
        if not heads:
            return True
    return False


async def run(given: argparse.Namespace, folder: Path) -> dict[str, Any]:
    """One run, and its report."""
    random = Random(given.seed)
    path = folder / "home.db"
    app, sender = make(f"sqlite:///{path}", [])
    loop = asyncio.get_running_loop()
    async with app:
        shared = {"path": str(path), "seed": given.seed, "doubled": given.doubled, "plant": given.plant}
        staff = Staff(folder, app.runtime().home.store, given.kills, given.workers, random, shared)
        try:
            began = loop.time()
            sent = await publish(app, sender, given, staff, random)
            longest = LONGEST_SECONDS_PER_KILL * given.kills
            while staff.counts["kills"] < given.kills and loop.time() - began < longest:
                await app.publish(Numbered(ALONE, sent[ALONE]), id=f"alone {sent[ALONE]}")  # for it to die of
                sent[ALONE] += 1
                await _a_kill(staff)
            published = loop.time()
            for _ in range(2):  # healing makes for deliveries too, and some of them are repeated
                if not await heal(app):
                    staff.complaints.append(f"{HEALING_SECONDS:.0f} s later something was left to do")
                await staff.repeated()
            await heal(app)
            healed = loop.time()
            await staff.end()
        finally:
            await staff.dismiss()
    alone = sent.pop(ALONE, 0)
    complaints = [*staff.complaints, *judge(path, sent, alone), *too_rare(staff, given), *_errors(folder)]
    applied_again = staff.attempts.total() - len(staff.attempts)
    return {
        "counters": {
            "seed": given.seed,
            "events published": alone + sent.total(),
            "of them in order, by actors": sent.total(),
            "kills at points": staff.counts["kills"],
            **{f"  {point}": staff.counts[f"killed {point}"] for point in POINTS},
            "deliveries that arrived twice": staff.counts["doubled"],
            "distinct events handled": len(staff.attempts),
            "attempts beside the first": applied_again,
            "taken over": staff.counts["taken over"],
            "fenced": staff.counts["fenced"],
            "processes": staff.counts["workers"],
            "seconds": round(published - began, 1),
            "healed after ms": round((healed - published) * 1000),
        },
        "complaints": complaints,
    }


def too_rare(staff: Staff, given: argparse.Namespace) -> list[str]:
    """What happened so rarely that nothing was proven."""
    found = []
    if staff.counts["kills"] < given.kills:
        found.append(f"{staff.counts['kills']} kills, not {given.kills}")
    if given.kills >= len(POINTS):
        found += [f"nobody was killed at {point}" for point in POINTS if not staff.counts[f"killed {point}"]]
    # Repeats of a process that is killed before it delivers them are not made, and on a busy machine that is many.
    if staff.counts["doubled"] < given.doubled * given.events * 0.1:
        found.append(f"only {staff.counts['doubled']} deliveries arrived twice")
    return found


def _errors(folder: Path) -> list[str]:
    texts = {path.name: path.read_text(errors="replace") for path in sorted(folder.glob("stderr-*.txt"))}
    return [f"{name}: {text[-1_000:]}" for name, text in texts.items() if "Traceback" in text or "ERROR" in text]


def main(arguments: Sequence[str]) -> int:
    given = options(arguments)
    folder = Path(tempfile.mkdtemp(prefix="holdfast-events-"))
    try:
        report = asyncio.run(run(given, folder))
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    for name, value in report["counters"].items():
        print(f"{name:<32} {value}")
    for complaint in report["complaints"][:20]:
        print(f"WRONG: {complaint}")
    print("wrong" if report["complaints"] else "all is right")
    if given.json is not None:
        given.json.write_text(json.dumps(report, indent=2))
    return 1 if report["complaints"] else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
