"""Cold and warm invocations of a function, under Lambda's own runtime client: ``python -m benchmarks.lambda_runtime``.

Three functions in turn, in one run: one that does nothing, one whose only act is a ``put_item`` by boto3, and one that
runs a workflow of one step on Holdfast. The emulator of the runtime interface and DynamoDB Local run on this machine
(Java, npm), so a request to the store takes a millisecond or two; on AWS it takes longer for both. What counts are the
ratios. Memory and processors are those of this machine, and not a share of one, as on Lambda.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

from tests.backends.aws import emulator
from tests.backends.aws.emulator import Environment, environments
from tests.backends.aws.local import DynamoDBLocal, missing

from holdfast.backends.aws import create_table

NOTHING = """
def handler(event, context):
    return None
"""

PUT_ITEM = """
import os

import boto3

table = boto3.client("dynamodb", endpoint_url=os.environ["ENDPOINT"])

def handler(event, context):
    table.put_item(TableName="bench-holdfast", Item={"p": {"S": event["id"]}, "s": {"S": "@"}})
"""

HOLDFAST = """
import holdfast as hf

app = hf.App("bench")

@app.step
async def charge(order: str) -> str:
    return order

@app.workflow
async def checkout(order: str) -> str:
    return await charge(order)

class Till(hf.Actor, app=app):
    total: int = 0

    async def add(self, cents: int) -> int:
        self.total += cents
        return self.total

handler = app.lambda_handler()
"""

FUNCTIONS = {
    "bare": ("does nothing", NOTHING),
    "put": ("boto3, one put_item", PUT_ITEM),
    "holdfast": ("Holdfast, workflow of one step", HOLDFAST),
    "call": ("Holdfast, call of an actor", HOLDFAST),
}


def event_of(name: str, number: int) -> dict[str, Any]:
    """What the function is called with."""
    id = f"{name}-{os.getpid()}-{time.monotonic_ns()}-{number}"
    if name == "call":
        return {"holdfast": "call", "actor": "Till", "key": "main", "method": "add", "args": [1], "request_id": id}
    return {"holdfast": "start", "workflow": "checkout", "id": id, "input": [id]}


def timed(work: Callable[[], Any]) -> tuple[float, Any]:
    """Milliseconds, and the answer."""
    began = time.perf_counter()
    answer = work()
    return (time.perf_counter() - began) * 1000, answer


@dataclass(slots=True)
class Figures:
    """Milliseconds: from the start of a process to its first answer, how long it had a processor until then, and how
    long each invocation after it took.
    """

    cold: list[float] = field(default_factory=list)
    processor: list[float] = field(default_factory=list)
    warm: list[float] = field(default_factory=list)

    def add(self, other: Figures) -> None:
        """Take in what another round has yielded."""
        self.cold += other.cold
        self.processor += other.processor
        self.warm += other.warm


def measure(name: str, folder: Path, variables: dict[str, str], warm: int) -> Figures:
    """One environment of a function: its first invocation, and so many more."""
    (folder / f"bench_{name}.py").write_text(FUNCTIONS[name][1])
    found = Figures()
    with environments() as made:

        def first() -> Any:
            made.append(Environment(f"bench_{name}.handler", folder, **variables))
            return made[0].invoke(event_of(name, 0))

        took, answer = timed(first)
        check(name, answer)
        found.cold.append(took)
        found.processor.append(made[0].processor_ms())
        for number in range(1, warm + 1):
            took, answer = timed(partial(made[0].invoke, event_of(name, number)))
            check(name, answer)
            found.warm.append(took)
    return found


def check(name: str, answer: Any) -> None:
    """A function that fails is quick, and proves nothing."""
    good = {"bare": answer is None, "put": answer is None}.get(name, isinstance(answer, int))
    if name == "holdfast":
        good = isinstance(answer, dict) and answer.get("status") == "COMPLETED"
    if not good:
        raise SystemExit(f"{name} answered {answer}")


def parse(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.lambda_runtime", description=__doc__)
    parser.add_argument("--rounds", type=int, default=7, help="so many cold starts of each function")
    parser.add_argument("--warm", type=int, default=50, help="so many invocations after each")
    return parser.parse_args(arguments)


def main(arguments: list[str] | None = None) -> int:
    options = parse(arguments)
    if (lack := missing() or emulator.missing()) is not None:
        print(lack, file=sys.stderr)
        return 2
    os.environ |= {
        "AWS_REGION": "eu-west-1",
        "AWS_ACCESS_KEY_ID": "test",
        "AWS_SECRET_ACCESS_KEY": "test",
        "NO_PROXY": "127.0.0.1",
    }
    database = DynamoDBLocal()
    url = f"aws://bench?region=eu-west-1&endpoint={database.endpoint}"
    figures = {name: Figures() for name in FUNCTIONS}
    try:
        asyncio.run(create_table(url))
        variables = {"ENDPOINT": database.endpoint, "HOLDFAST_URL": url}
        with tempfile.TemporaryDirectory() as folder:
            for number in range(options.rounds + 1):
                for name, known in figures.items():
                    found = measure(name, Path(folder), variables, options.warm)
                    if number:  # the first round compiles, and warms the disk's cache
                        known.add(found)
    finally:
        database.stop()
    print(table(figures))
    return 0


def table(figures: dict[str, Figures]) -> str:
    """Medians in milliseconds, with the least and the most, and ratios to the function with one request."""
    lines = [
        f"{'':32}{'cold':>8}{'least–most':>13}{'ratio':>7}{'processor':>11}{'ratio':>7}{'warm':>8}{'p99':>8}{'ratio':>7}"
    ]
    beside = figures["put"]
    for name, (what, _) in FUNCTIONS.items():
        own = figures[name]
        spread = f"{min(own.cold):.0f}–{max(own.cold):.0f}"
        late = sorted(own.warm)[int(len(own.warm) * 0.99)]
        lines.append(
            f"{what:32}{median(own.cold):8.0f}{spread:>13}{median(own.cold) / median(beside.cold):7.2f}"
            f"{median(own.processor):11.0f}{median(own.processor) / median(beside.processor):7.2f}"
            f"{median(own.warm):8.2f}{late:8.1f}{median(own.warm) / median(beside.warm):7.2f}"
        )
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
