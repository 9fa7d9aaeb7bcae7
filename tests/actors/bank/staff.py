"""The workers as their parent sees them: started, given orders, killed, replaced; whatever one owes goes to another."""

from __future__ import annotations

import asyncio
import json
import multiprocessing
import signal
from collections import Counter, deque
from multiprocessing.connection import Connection
from random import Random
from typing import Any

from tests.actors.bank.worker import work

MOST_OUTSTANDING = 40
"""How many orders a worker has at once."""

MOST_COMPLAINTS = 20
"""After so many nothing more is to be learned from the run."""

Order = dict[str, Any]


class Clerk:
    """One worker process."""

    def __init__(self, context: Any, path: str, plant: str | None) -> None:
        self.pipe: Connection
        self.pipe, theirs = multiprocessing.Pipe()
        self.process = context.Process(target=work, args=(path, plant, theirs))
        self.process.start()
        theirs.close()
        self.orders: dict[str, Order] = {}
        self.open = self.has_served = False

    def give(self, order: Order | None) -> None:
        """Hand it an order; ``None`` asks it to end when it has done all."""
        if order is not None:
            self.orders[order["id"]] = order
        try:
            self.pipe.send_bytes(json.dumps(order).encode())
        except OSError:
            return  # it has been killed: its pipe will say so


class Staff:
    """Keeps some workers at work until all orders are done."""

    def __init__(self, path: str, plant: str | None, workers: int, random: Random) -> None:
        self._context = multiprocessing.get_context("forkserver")
        self._context.set_forkserver_preload(["holdfast.app", "holdfast.backends.sqlite", "tests.actors.bank.worker"])
        self._path = path
        self._plant = plant
        self._workers = workers
        self._random = random
        self.clerks: list[Clerk] = []
        self.waiting: deque[Order] = deque()
        self.replies: dict[str, set[int | str]] = {}
        self.counts: Counter[str] = Counter()
        self.complaints: list[str] = []
        self.moved = asyncio.Event()

    def hire(self) -> None:
        """Fill all places."""
        while len(self.clerks) < self._workers:
            clerk = Clerk(self._context, self._path, self._plant)
            self.counts["workers started"] += 1
            self.clerks.append(clerk)
            asyncio.get_running_loop().add_reader(clerk.pipe.fileno(), self._hear, clerk)

    def kill_one(self) -> None:
        """End by SIGKILL one of the workers that have done something: without that a slow machine gets nowhere."""
        working = [each for each in self.clerks if each.has_served and each.process.is_alive()]
        if working:
            self._random.choice(working).process.kill()
            self.counts["workers killed"] += 1

    async def end(self) -> None:
        """Let all workers finish and leave, and see that they do so properly."""
        for clerk in self.clerks:
            clerk.give(None)
        while self.clerks:
            await self._moved()

    async def done(self, orders: int) -> None:
        """Wait until so many different orders were answered, and nothing is under way."""
        while len(self.replies) < orders or self.waiting or any(clerk.orders for clerk in self.clerks):
            if len(self.complaints) > MOST_COMPLAINTS:
                return
            self._hand_out()
            await self._moved()

    async def _moved(self) -> None:
        await self.moved.wait()
        self.moved.clear()

    def _hand_out(self) -> None:
        for clerk in self._random.sample(self.clerks, len(self.clerks)):
            while clerk.open and self.waiting and len(clerk.orders) < MOST_OUTSTANDING:
                if self.waiting[0]["id"] in clerk.orders:
                    break  # a repeat goes to somebody else
                clerk.give(self.waiting.popleft())

    def _hear(self, clerk: Clerk) -> None:
        self.moved.set()
        try:
            while clerk.pipe.poll():
                self._take(json.loads(clerk.pipe.recv_bytes()), clerk)
        except (EOFError, OSError):
            self._lost(clerk)

    def _take(self, told: dict[str, Any], clerk: Clerk) -> None:
        match told:
            case {"event": "open"}:
                clerk.open = True
            case {"event": "closed"}:
                self.counts["workers that left properly"] += 1
            case {"event": event, "detail": detail}:
                self.counts[event] += 1
                if event in {"parked", "turn_failed"}:
                    self.complaints.append(f"{event}: {detail}")
            case {"id": id, "reply": reply}:
                clerk.orders.pop(id)
                clerk.has_served = True
                self.replies.setdefault(id, set()).add(reply)
                self.counts["replies"] += 1
            case {"id": id, "error": error}:
                self.waiting.append(clerk.orders.pop(id))
                self.counts["errors"] += 1
                self.complaints.append(f"transfer {id}: {error}")

    def _lost(self, clerk: Clerk) -> None:
        asyncio.get_running_loop().remove_reader(clerk.pipe.fileno())
        clerk.pipe.close()
        clerk.process.join()
        if clerk.process.exitcode not in {0, -signal.SIGKILL}:
            self.complaints.append(f"a worker ended by itself, with status {clerk.process.exitcode}")
        self.clerks.remove(clerk)
        self.counts["orders of killed workers sent again"] += len(clerk.orders)
        self.waiting.extendleft(clerk.orders.values())
