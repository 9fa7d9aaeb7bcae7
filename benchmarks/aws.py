"""``python -m benchmarks.aws``: what the home on AWS costs and takes, metered on the path of a function.

It writes ``benchmarks/aws.json``.

Units and dollars are of DynamoDB Local, as it reports them, behind the queue and the function of the tests, in virtual
time. Events and messages a second are those that one app, and one actor, accepts through ``holdfast.testing.hostile``
with the rules of the service: for a minute, offered at a rate, from processes of this machine. The emulator, its proxy,
the clients and the worker share its processors, so these two rows are the machine's limit as much as ours.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

from benchmarks import lambda_path, scale
from benchmarks.lambda_path import dollars
from benchmarks.machine import described
from holdfast.cost.ours import Used

RESULTS = Path(__file__).parent / "aws.json"

AIMS = {
    "message hop": 3,
    "5 steps": 5,
    "5 steps, started by a message": 5,
    "5 steps and an hour": 7,
    "5 steps and an hour, started by a message": 7,
    "ordered batch of ten": 5,
    "events per second of one app": 1_000,
    "messages per second to one actor": 1_000,
}
AT_LEAST = frozenset({"events per second of one app", "messages per second to one actor"})
SOON_SECONDS = 0.5
UNITS, DOLLARS = "write units", "$ per million"
METERED = (
    "DynamoDB Local, behind a queue and a function in virtual time; the stream covers accepted work "
    "(holdfast aws settings --cover stream) unless the row says the index; each message alone in its batch unless the "
    "row says tens"
)

Row = dict[str, Any]


def row(name: str, value: float, unit: str, **more: Any) -> Row:
    """A figure, beside its aim if there is one."""
    aim = AIMS.get(name)
    aimed = {} if aim is None else {"aim": aim, "met": met(name, value, **more)}
    return {"name": name, "value": round(value, 4), "unit": unit, **aimed, **more}


def met(name: str, value: float, *, p99_seconds: float = 0.0, lost: int = 0, **_: Any) -> bool:
    """Whether a row meets its aim: what is accepted a second does so if it is accepted soon, and nothing is lost."""
    if name in AT_LEAST:
        return value >= AIMS[name] and p99_seconds < SOON_SECONDS and not lost
    return value <= AIMS[name]


def metered() -> list[Row]:
    """The rows that count units: with accepted work covered by the stream of the table, and by the index alone."""
    from tests.backends.aws.local import credentials, shared_client

    with credentials():
        client = shared_client()
    indexed = [
        each | {"name": f"{each['name']}, covered by the index"}
        for each in rows_of(lambda_path.measured(client))
        if each["name"] in AIMS
    ]
    for each in indexed:
        each.pop("aim"), each.pop("met")
    return rows_of(lambda_path.measured(client, streamed=True)) + indexed


def rows_of(found: dict[str, Used]) -> list[Row]:
    """The rows of one table."""
    message, both, batch = found["message"], found["two messages"], found["ordered batch of ten"]
    hop = {"read_units": reads(message), "usd_per_million": dollars(message)}
    rows = [
        row("message hop", units(message), UNITS, **hop),
        row("message hop, from actor to actor", units(both) - units(message), UNITS),
    ]
    for name in ("5 steps", "5 steps and an hour"):
        used, invoked, commanded = (found[f"{name}{how}"] for how in ("", ", invoked", ", commanded"))
        rows += [
            row(name, dollars(used), DOLLARS, write_units=units(used)),
            row(f"{name}, in tens", dollars(used.in_batches()), DOLLARS),
            row(f"{name}, started by an invocation", dollars(invoked), DOLLARS, write_units=units(invoked)),
            row(f"{name}, started by a message", dollars(commanded), DOLLARS, write_units=units(commanded)),
        ]
    return [*rows, row("ordered batch of ten", units(batch), UNITS, read_units=reads(batch))]


def units(used: Used) -> float:
    """Write units of one repetition."""
    return used.usage.write_units / used.runs


def reads(used: Used) -> float:
    """Read units of one repetition."""
    return round(used.usage.read_units / used.runs, 4)


def scaled(what: str, name: str, options: argparse.Namespace) -> Row:
    """A row of what is accepted a second."""
    words = [what, f"--rate={options.rate}", f"--seconds={options.seconds}", f"--clients={options.clients}"]
    found = scale.run(scale.parse([*words, f"--processes={options.processes}"]))
    told = {key: round(value, 4) for key, value in asdict(found).items() if key != "per_second"}
    when = {each: described()[each] for each in ("date", "commit")}  # of its own: --units leaves it as it is
    told |= {"offered": options.rate, "seconds": options.seconds, "load": round(os.getloadavg()[0], 1)}
    return row(name, found.per_second, "a second", **told, **when)


def parse(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.aws", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rate", type=float, default=1_000.0, help="events, and messages, offered a second")
    parser.add_argument("--seconds", type=float, default=60.0, help="how long they are offered")
    parser.add_argument("--clients", type=int, default=50, help="homes that send them")
    parser.add_argument("--processes", type=int, default=2, help="of the operating system, for the clients")
    parser.add_argument("--units", action="store_true", help="only what is metered in units; other rows stay")
    parser.add_argument("--output", type=Path, default=RESULTS, metavar="FILE", help="by default benchmarks/aws.json")
    return parser.parse_args(arguments)


def main(arguments: list[str] | None = None) -> int:
    options = parse(arguments)
    rows = metered()
    if options.units:
        known = json.loads(options.output.read_text()) if options.output.exists() else {"rows": []}
        rows += [each for each in known["rows"] if each["name"] in AT_LEAST]
    else:
        rows.append(scaled("events", "events per second of one app", options))
        rows.append(scaled("messages", "messages per second to one actor", options))
    content = {**described(), "metered": METERED, "rows": rows}
    options.output.write_text(json.dumps(content, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    for each in rows:
        told = {True: "met", False: f"missed: {each.get('aim')}", None: ""}[each.get("met")]
        print(f"{each['name']:44}{each['value']:10,.2f} {each['unit']:14}{told}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
