"""Torture for actors: a bank whose workers are killed by `kill -9` again and again. `python -m tests.actors.bank`.

Money must be conserved, every acknowledged transfer applied exactly once however often it was ordered, and soon after
the last kill no lease, claim or message may be left. Prints its counters; the exit status tells the truth.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import shutil
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import Any

from tests.actors.bank.staff import Staff
from tests.actors.bank.verdict import heal, judge

from holdfast.opening import open_home

QUICK = {"accounts": 20, "transfers": 1_200, "kills": 5, "most_kills": 15, "every": 0.1}
FULL = {"accounts": 100, "transfers": 5_000, "kills": 40, "most_kills": 1_000, "every": 0.2}
REPEATED = 0.2
"""The share of the orders that are given twice from the start, beside those that killed workers leave behind."""


def options(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.actors.bank", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a short run")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--accounts", type=int)
    parser.add_argument("--transfers", type=int)
    parser.add_argument("--kills", type=int, help="at least so many workers are killed, or the run has proven nothing")
    parser.add_argument("--most-kills", type=int, help="after so many the rest is done in peace")
    parser.add_argument("--workers", type=int, default=4)
    parser.add_argument("--every", type=float, help="seconds between two kills")
    parser.add_argument("--plant", choices=["twice"], help="a bug that the run must find: requests without an id")
    parser.add_argument("--json", type=Path)
    given = parser.parse_args(arguments)
    for name, value in (QUICK if given.quick else FULL).items():
        if getattr(given, name) is None:
            setattr(given, name, value)
    return given


def orders_of(given: argparse.Namespace, random: Random) -> list[dict[str, Any]]:
    """The transfers, some of them twice, in an order of their own."""
    orders = []
    for n in range(given.transfers):
        payer, to = random.sample(range(given.accounts), 2)
        cents = random.randint(1, 300)
        how = random.choice(["send", "call"])
        orders.append({"id": f"t{n}", "from": f"a{payer}", "to": f"a{to}", "cents": cents, "how": how})
    repeated = random.sample(orders, int(REPEATED * len(orders)))
    for order in repeated:
        orders.insert(random.randrange(len(orders)), order)
    return orders


async def kill(staff: Staff, every_seconds: float, most: int) -> None:
    while staff.counts["workers killed"] < most:
        await asyncio.sleep(every_seconds)
        staff.kill_one()
        staff.hire()


async def run(given: argparse.Namespace, folder: Path) -> dict[str, Any]:
    """One run, and its report."""
    random = Random(given.seed)
    path = str(folder / "home.db")
    home = await open_home(f"sqlite:///{path}")
    orders = orders_of(given, random)
    staff = Staff(path, given.plant, given.workers, random)
    staff.waiting.extend(orders)
    staff.hire()
    loop = asyncio.get_running_loop()
    began = loop.time()
    killer = asyncio.create_task(kill(staff, given.every, given.most_kills))
    await staff.done(given.transfers)
    killer.cancel()
    seconds = loop.time() - began
    staff.hire()
    healed_seconds, rest = await heal(home.store)
    await staff.end()
    complaints = staff.complaints + rest + await judge(home.store, given.accounts, orders, staff.replies)
    counts = staff.counts
    if counts["workers killed"] < given.kills:
        complaints.append(f"only {counts['workers killed']} workers were killed, not {given.kills}: nothing is proven")
    if not counts["claimed"]:
        complaints.append("no actor was taken over from a dead worker: nothing is proven")
    if counts["workers that left properly"] != given.workers:
        complaints.append(f"only {counts['workers that left properly']} of {given.workers} workers left properly")
    await home.doorbell.close()
    await home.store.close()
    declined = sum(answered == {"declined"} for answered in staff.replies.values())
    again = len(orders) - given.transfers + counts["orders of killed workers sent again"]
    return {
        "counters": {
            "seed": given.seed,
            "seconds": round(seconds, 1),
            "transfers acknowledged": len(staff.replies),
            "transfers declined": declined,
            "requests sent again": again,
            "workers killed": counts["workers killed"],
            "actors taken over": counts["claimed"],
            "fenced": counts["fenced"],
            "clean again after ms": round(healed_seconds * 1000),
        },
        "complaints": complaints,
    }


def main(arguments: Sequence[str]) -> int:
    given = options(arguments)
    folder = Path(tempfile.mkdtemp(prefix="holdfast-bank-"))
    try:
        report = asyncio.run(run(given, folder))
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    for name, value in report["counters"].items():
        print(f"{name:>24}  {value}")
    for complaint in report["complaints"][:20]:
        print(f"WRONG: {complaint}")
    print("wrong" if report["complaints"] else "all is right")
    if given.json is not None:
        given.json.write_text(json.dumps(report, indent=2))
    return 1 if report["complaints"] else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
