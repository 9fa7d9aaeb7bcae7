"""A worker of limited steps in a process of its own: ``python limit_worker.py FILE LEDGER``. They tell the ledger."""

from __future__ import annotations

import asyncio
import os
import sys
import time
from pathlib import Path

import holdfast as hf

PERMITS = 3
RATE = hf.Rate(40, per="2s", burst=4)
LOAN_MS = 1_500

file, ledger = sys.argv[1:]
app = hf.App("crew", home=f"sqlite:///{file}", limits=hf.Limits(lease_ms=LOAN_MS, sweep_seconds=0.5))
limit = app.limit("service", permits=PERMITS, rate=RATE)


def tell(what: str, name: str) -> None:
    """One line, in one write that no other process parts."""
    descriptor = os.open(ledger, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    try:
        os.write(descriptor, f"{what} {name} {os.getpid()} {time.monotonic():.6f}\n".encode())
    finally:
        os.close(descriptor)


@app.step(limit=limit, retry=hf.Retry(max_attempts=50, initial="50ms"))
async def work(name: str) -> str:
    tell("begin", name)
    try:
        await asyncio.sleep(0.08)
    finally:
        tell("end", name)
    return name


@app.workflow
async def job(name: str) -> str:
    return await work(name)


if __name__ == "__main__":
    Path(ledger).touch()
    app.run()
