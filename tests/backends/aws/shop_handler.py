"""The module that the function's settings name in test_real_runtime.py: an app, and what it did in a ledger.

Its folder is told what to do: steps that find the file ``hang`` there never end, and ``gate`` says how many have to be
under way before one ends.
"""

from __future__ import annotations

import asyncio
import os
import time
from pathlib import Path

import holdfast as hf

FOLDER = Path.cwd()
app = hf.App("shop", limits=hf.Limits(lease_ms=1_500, called_lease_ms=1_500))
under_way: set[str] = set()
full = asyncio.Event()


def note(line: str) -> None:
    with (FOLDER / "ledger").open("a") as ledger:
        ledger.write(line + "\n")
        ledger.flush()
        os.fsync(ledger.fileno())


@app.step
async def charge(order: str) -> str:
    key = hf.current().idempotency_key
    note(f"begin {order} {key}")
    if (FOLDER / "hang").exists():
        await asyncio.Event().wait()
    note(f"charge {order} {key}")
    return f"charged {order}"


@app.step
async def stuck(order: str) -> str:
    """As code that does not let go of the loop: a client without a time-out, a long calculation."""
    note(f"begin {order} {hf.current().idempotency_key}")
    while (FOLDER / "hang").exists():
        time.sleep(0.01)  # noqa: ASYNC251 - this is the mistake that it shows
    note(f"charge {order} {hf.current().idempotency_key}")
    return f"charged {order}"


@app.step
async def meet(order: str) -> int:
    """Ends when as many as are expected have begun: never, if they come one after another."""
    under_way.add(order)
    if len(under_way) == int((FOLDER / "gate").read_text()):
        full.set()
    await full.wait()
    return len(under_way)


@app.workflow
async def checkout(order: str) -> str:
    return await charge(order)


@app.workflow
async def jam(order: str) -> str:
    return await stuck(order)


@app.workflow
async def gathering(order: str) -> int:
    return await meet(order)


class Till(hf.Actor, app=app):
    orders: list[str] = hf.field(default_factory=list)

    async def add(self, order: str) -> int:
        if order == "bad":
            raise ValueError("the till is stuck")
        self.orders = [*self.orders, order]
        return len(self.orders)

    @hf.method(timeout=None)  # so that nothing but the time of the invocation ends it, however slow the machine is
    async def wait(self) -> None:
        note("begin wait")
        await asyncio.Event().wait()

    @hf.read
    async def all(self) -> list[str]:
        return self.orders


handler = app.lambda_handler(http=hf.BearerTokens({"till": "7" * 64}))
