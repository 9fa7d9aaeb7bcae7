"""A Lambda environment as a process of its own: takes events on its standard input, one JSON line each, and answers.

``python environment.py <folder>``: the folder has the ledger; a step that finds the file ``hang`` in it never ends.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import time
from pathlib import Path

import holdfast as hf

FOLDER = Path(sys.argv[1])
app = hf.App("shop", limits=hf.Limits(lease_ms=1_500, called_lease_ms=1_500))


def note(line: str) -> None:
    with (FOLDER / "ledger").open("a") as ledger:
        ledger.write(line + "\n")
        ledger.flush()
        os.fsync(ledger.fileno())


@app.step
async def charge(order: str) -> str:
    note(f"begin charge {order}")
    if (FOLDER / "hang").exists():
        await asyncio.Event().wait()
    note(f"charge {order}")
    return f"charged {order}"


@app.step
async def ship(order: str) -> str:
    note(f"ship {order}")
    return f"shipped {order}"


class Till(hf.Actor, app=app):
    orders: list[str] = hf.field(default_factory=list)

    async def add(self, order: str) -> int:
        self.orders = [*self.orders, order]
        return len(self.orders)

    @hf.read
    async def all(self) -> list[str]:
        return self.orders


@app.workflow
async def checkout(order: str) -> list[object]:
    paid = await charge(order)
    await hf.sleep("1s")
    approved = await hf.signal("approved", bool)
    number = await Till.at("main").add(order)
    return [paid, approved, number, await ship(order)]


class Context:
    aws_request_id = f"request-{os.getpid()}"

    def __init__(self, seconds: float) -> None:
        self._until = time.monotonic() + seconds

    def get_remaining_time_in_millis(self) -> int:
        return int((self._until - time.monotonic()) * 1000)


def main() -> None:
    handler = app.lambda_handler()
    for line in sys.stdin:
        try:
            answer = {"answer": handler(json.loads(line), Context(30))}
        except Exception as error:
            answer = {"error": f"{type(error).__name__}: {error}"}
        sys.stdout.write(json.dumps(answer) + "\n")
        sys.stdout.flush()


main()
