"""A worker of the bank: takes orders from its parent, moves money, says what came of it. It may be killed any time."""

from __future__ import annotations

import asyncio
import json
import os
from multiprocessing.connection import Connection
from typing import Any

from tests.actors.bank.accounts import Bank
from tests.torture.die_with_parent import die_with_parent


def work(path: str, plant: str | None, pipe: Connection) -> None:
    """The process."""
    die_with_parent()
    asyncio.run(_work(Bank(path, plant), pipe))


async def _work(bank: Bank, pipe: Connection) -> None:
    loop = asyncio.get_running_loop()
    tasks: set[asyncio.Task[None]] = set()
    told_to_end = asyncio.Event()

    def tell(what: dict[str, Any]) -> None:
        try:
            pipe.send_bytes(json.dumps(what).encode())
        except OSError:
            os._exit(1)  # the run has ended without us

    def watch(event: str, fields: dict[str, Any]) -> None:
        if event in {"fenced", "parked", "turn_failed"} or (event == "claimed" and fields["takeover"]):
            tell({"event": event, "detail": str(fields)})

    async def move(order: dict[str, Any]) -> None:
        try:
            tell({"id": order["id"], "reply": await bank.move(order)})
        except Exception as error:
            tell({"id": order["id"], "error": repr(error)})

    def hear() -> None:
        while pipe.poll():
            try:
                order = json.loads(pipe.recv_bytes())
            except (EOFError, OSError):
                os._exit(1)  # the run has ended without us
            if order is None:
                told_to_end.set()
                return
            task = loop.create_task(move(order))
            tasks.add(task)
            task.add_done_callback(tasks.discard)

    bank.app.telemetry.subscribe(watch)
    async with bank.app.worker():
        tell({"event": "open", "detail": ""})
        loop.add_reader(pipe.fileno(), hear)
        await told_to_end.wait()
        loop.remove_reader(pipe.fileno())
        await asyncio.gather(*tasks)
    tell({"event": "closed", "detail": ""})
