"""A process that works with documents and streams beside others: ``python -m … PATH NAME TIMES KILLED_AFTER``.

It counts in a document, moves pieces between two documents, appends to a stream of its own and to a common one, and
carries a projection on. Says each time what was acknowledged. With KILLED_AFTER above 0 it dies by ``kill -9`` then.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from dataclasses import dataclass

import holdfast as hf


@dataclass
class Counted:
    by: str
    number: int


def make(path: str):
    app = hf.App("clerks", home=f"sqlite:///{path}")
    streams = app.streams(Counted, ordered=True)
    totals = app.documents(int, name="totals")

    async def count(tx, recorded):
        total = totals.at(recorded.event.by)
        tx.put(total, (await tx.find(total) or 0) + 1)

    return app, streams, totals, app.projection("totals", streams, count, batch=5)


async def main(path: str, name: str, times: int, killed_after: int) -> None:
    app, streams, totals, projection = make(path)
    left, right, shared = (totals.at(each) for each in ("left", "right", "shared"))

    async def move(tx):
        tx.put(left, (await tx.find(left) or 0) - 1)
        tx.put(right, (await tx.find(right) or 0) + 1)

    async with app:
        sys.stdout.write("ready\n")
        sys.stdout.flush()
        await asyncio.get_running_loop().run_in_executor(None, sys.stdin.readline)
        for number in range(1, times + 1):
            await shared.update(lambda n: n + 1, default=0)
            await app.atomically(move)
            await streams.at(name).append(Counted(name, number), id=f"n{number}")
            await streams.at("common").append(Counted(name, number))
            await projection.catch_up()
            sys.stdout.write(f"{number}\n")
            sys.stdout.flush()
            if number == killed_after:
                os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])))
