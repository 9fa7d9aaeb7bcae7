"""The stage of a story: a home, a bank, workers that come and go, and a record of what happened."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path
from random import Random
from signal import SIGKILL
from typing import Final

import holdfast as hf
from holdfast.actors.record import key_of
from holdfast.chaos import cast
from holdfast.chaos.cast import Worker
from holdfast.chaos.looking import books, is_under_way, until
from holdfast.chaos.points import Fault, Part
from holdfast.chaos.shop import RETRY, Books, OrderPlaced, app
from holdfast.crew.ledger import LEDGER_FILE, Bank, Entry
from holdfast.crew.process import Said

CUSTOMERS: Final = ("Ada", "Bram", "Chidi", "Dilek", "Emma")
LONG_LEASE_MS: Final = 20_000
"""Longer than any story: a worker that takes over before it lapses has noticed a death."""


class StoryFailed(Exception):
    """The event of the story did not happen, so the story cannot continue."""


class Stage:
    """The means of a story."""

    def __init__(self, folder: Path, random: Random, tell: Callable[[str], None]) -> None:
        self.random = random
        self.bank = Bank(folder / LEDGER_FILE)
        self.ordered: dict[str, int] = {}
        self.faults: list[str] = []
        self.problems: list[str] = []
        self.told: list[str] = []
        self._folder = folder
        self._tell = tell
        self._orders = 0
        self._workers: list[Worker] = []

    # ── Telling ─────────────────────────────────────────────────────────────────────────────────────────────────────

    def say(self, text: str) -> None:
        """One line for the audience."""
        self.told.append(text)
        self._tell(text)

    def fault(self, text: str) -> None:
        """Note an observed fault."""
        self.faults.append(text)
        self.say(text)

    def problem(self, text: str, *, unless: bool) -> None:
        """Note a problem, unless all is well."""
        if not unless:
            self.problems.append(text)

    # ── Acting ──────────────────────────────────────────────────────────────────────────────────────────────────────

    async def worker(
        self, fault: Fault | None = None, *, lease_ms: int = LONG_LEASE_MS, attempts: int = RETRY.max_attempts
    ) -> Worker:
        """A new worker, called A, B, C…, with its ``fault``."""
        name = chr(ord("A") + len(self._workers))
        part = Part(folder=str(self._folder), lease_ms=lease_ms, attempts=attempts, fault=fault)
        worker = await cast.at_work(name, part, cast.CODE)
        self._workers.append(worker)
        return worker

    def new_order(self, customer: str | None = None, *, billed: bool = True) -> OrderPlaced:
        """An order that is to be billed once; or never."""
        self._orders += 1
        cents = self.random.randrange(500, 10_000)
        order = OrderPlaced(f"order-{self._orders}", customer or self.random.choice(CUSTOMERS), cents)
        if billed:
            self.ordered[order.order] = cents
        return order

    async def open(self) -> None:
        """What exists before any story begins."""
        await hf.send(Books.at("shop").open)

    async def publish(self, count: int) -> None:
        """Publish some orders, each by itself, under its own id."""
        for _ in range(count):
            order = self.new_order()
            await app.publish(order, id=order.order)
        self.say(f"published: {many(count, 'order')}")

    async def killed(self, worker: Worker, where: str) -> Said:
        """Wait until a worker has killed itself at its point; returns its last report."""
        struck = await self._struck(worker)
        status = await worker.ended()
        self.problem(f"{worker} was to be killed, and ended with status {status}", unless=status == -SIGKILL)
        self.fault(f"kill -9: {worker} dies {where}")
        return struck

    async def stopped(self, worker: Worker, where: str) -> Said:
        """Wait until a worker has stopped itself at its point; returns its last report."""
        struck = await self._struck(worker)
        self.fault(f"SIGSTOP: {worker} is stopped {where}")
        return struck

    async def _struck(self, worker: Worker) -> Said:
        """Its fault; or, if all work was done without it, the end of the story."""
        struck, quiet = asyncio.ensure_future(worker.struck()), asyncio.ensure_future(self.quiet())
        try:
            await asyncio.wait((struck, quiet), return_when=asyncio.FIRST_COMPLETED)
            if not struck.done():
                raise StoryFailed(f"all was done, and nothing happened to {worker}")
            return struck.result()
        finally:
            struck.cancel()
            quiet.cancel()

    # ── Looking ─────────────────────────────────────────────────────────────────────────────────────────────────────

    async def quiet(self) -> None:
        """Wait until every order is in the books and no event is under way."""

        async def is_quiet() -> bool:
            return self.ordered.keys() <= (await books()).keys() and not await is_under_way()

        await until(is_quiet)

    async def billed(self, orders: Sequence[OrderPlaced]) -> None:
        """Wait until these orders are in the books."""

        async def are_billed() -> bool:
            return {each.order for each in orders} <= (await books()).keys()

        await until(are_billed)

    def attempts(self, order: str) -> list[Entry]:
        """The bank's entries for an order."""
        return [attempt for attempt in self.bank.entries() if attempt.order == order]

    async def close(self) -> None:
        """Stop every worker."""
        await asyncio.gather(*(worker.stop() for worker in self._workers))


def many(count: int, what: str) -> str:
    """A count with its noun."""
    return f"{count} {what}{'' if count == 1 else 's'}"


def times(count: int) -> str:
    """How often."""
    return "once" if count == 1 else f"{count} times"


def order_of(said: Said) -> str:
    """The order in a worker's report, if the order was published by itself."""
    return key_of(said["partition"])
