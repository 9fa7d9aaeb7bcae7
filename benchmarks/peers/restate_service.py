"""The workflows and the object that ``measure_restate.py`` measures, and the process that serves them to Restate.

    python restate_service.py hypercorn|granian PORT MARKS

Runs in the peer's own environment. Each handler does what the workflow or the actor's method of the same name does for
Holdfast. Every ``hit`` appends a byte to the file MARKS: that is how the caller sees, without asking Restate, how many
were applied. Either web server runs in this one process: whoever stops it has nothing else to stop.
"""

from __future__ import annotations

import asyncio
import os
import sys
import time
from datetime import timedelta

import restate
from restate import Context, ObjectContext, Service, VirtualObject

MANY = 2**31
"""Hypercorn closes a connection after 1,000 requests, and calls in flight on it then wait for half a minute."""

bench = Service("Bench")
counter = VirtualObject("Counter")
marks = -1
"""The file of marks, once it is open."""


def work(number: int) -> int:
    return number


@bench.handler()
async def one_step(context: Context, number: int) -> int:
    return await context.run_typed("step", work, number=number)


@bench.handler()
async def sequence(context: Context, count: int) -> int:
    for number in range(count):
        await context.run_typed("step", work, number=number)
    return count


@bench.handler()
async def parallel(context: Context, count: int) -> int:
    return len(await restate.gather(*[context.run_typed("part", work, number=number) for number in range(count)]))


@bench.handler()
async def child(_context: Context, number: int) -> int:
    return number


@bench.handler()
async def children(context: Context, count: int) -> int:
    return len(await restate.gather(*[context.service_call(child, arg=number) for number in range(count)]))


@bench.handler()
async def overshoot(context: Context, due: float) -> float:
    await context.sleep(timedelta(seconds=max(0.0, due - time.time())))
    return time.time() - due


@counter.handler()
async def add(context: ObjectContext, by: int) -> int:
    count = (await context.get("count", type_hint=int) or 0) + by
    context.set("count", count)
    return count


@counter.handler()
async def hit(context: ObjectContext, by: int) -> None:
    context.set("count", (await context.get("count", type_hint=int) or 0) + by)
    os.write(marks, b".")


@counter.handler()
async def fan_out(context: ObjectContext, keys: int) -> None:
    for key in range(keys):
        context.object_send(hit, str(key), 1)


app = restate.app([bench, counter])


async def by_hypercorn(port: int) -> None:
    from hypercorn.asyncio import serve
    from hypercorn.config import Config

    config = Config()
    config.bind = [f"127.0.0.1:{port}"]
    config.keep_alive_max_requests = MANY
    await serve(app, config)


async def by_granian(port: int) -> None:
    from granian.constants import HTTPModes, Interfaces
    from granian.server.embed import Server

    await Server(app, address="127.0.0.1", port=port, interface=Interfaces.ASGI, http=HTTPModes.http2).serve()


def main() -> None:
    global marks  # noqa: PLW0603  a handler is given its context and its argument, nothing else
    server, port, path = sys.argv[1], int(sys.argv[2]), sys.argv[3]
    marks = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    asyncio.run({"hypercorn": by_hypercorn, "granian": by_granian}[server](port))


if __name__ == "__main__":
    main()
