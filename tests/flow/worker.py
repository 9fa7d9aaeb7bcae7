"""A worker of a queue in a process of its own: ``python worker.py FILE LEDGER``. Its steps tell the ledger."""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path

import holdfast as hf

LIMIT = 3

file, ledger = sys.argv[1:]
app = hf.App("crew", home=f"sqlite:///{file}", limits=hf.Limits(lease_ms=1_500, sweep_seconds=0.5))
queue = app.queue("jobs", limit=LIMIT)


def tell(what: str, name: str) -> None:
    """One line, in one write that no other process parts."""
    descriptor = os.open(ledger, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    try:
        os.write(descriptor, f"{what} {name}\n".encode())
    finally:
        os.close(descriptor)


@app.step
async def work(name: str) -> str:
    tell("begin", name)
    await asyncio.sleep(0.05)
    return name


@app.step
async def finish(name: str) -> None:
    tell("end", name)


@app.workflow(queue=queue)
async def job(name: str) -> str:
    await work(name)
    await hf.sleep("20ms")
    await finish(name)
    return name


if __name__ == "__main__":
    Path(ledger).touch()
    app.run()
