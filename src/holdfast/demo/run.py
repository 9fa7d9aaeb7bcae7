"""One run of the demonstration: the world is set up, orders come in, workers are killed, and the end of all orders is
awaited.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, Final, Protocol

import msgspec
from msgspec import Struct

import holdfast as hf
from holdfast.clock import elapsed_seconds
from holdfast.demo import generate
from holdfast.demo.audit import ORDERS_FILE, home_url
from holdfast.demo.outside import outside_world
from holdfast.demo.shop import CATALOGUE, SCHEMA, Order, app, checkout
from holdfast.demo.workers import Workers
from holdfast.errors import ExecutionError
from holdfast.workflows.record import PARTITION_PREFIX, RUNNING, id_of

WORKERS: Final = 2
KILLS_AT: Final = (1 / 3, 2 / 3)
"""When a worker is killed: after these parts of the orders have ended, if it has work in its hands then."""

ORDERS_PER_SECOND: Final = 16.0
PATIENCE_SECONDS: Final = 100.0
TICK_SECONDS: Final = 0.1
SOLD_OUT: Final = "LAMP-RETRO"
SPARE: Final = 10
"""How many more of everything than is ordered."""


class Kill(Struct, frozen=True):
    """One ``kill -9``: its process, the orders it worked on, and the process that replaced it."""

    pid: int
    orders: list[str]
    successor: int


class Run(Struct, frozen=True, kw_only=True):
    """The events that only the run knows; the audit has the rest."""

    kills: list[Kill]
    elapsed_seconds: float


class Watcher(Protocol):
    """Gets the progress of a run."""

    def progress(self, ended: int, orders: int, outcomes: Counter[str]) -> None:
        """A number of orders have ended."""
        ...

    def tell(self, text: str) -> None:
        """Something worth a line."""
        ...


def sample_orders(count: int) -> list[str]:
    """The first ``count`` orders, one line of JSON each: those of the data file, and more of the kind if necessary."""
    lines = Path(__file__).with_name(ORDERS_FILE).read_text(encoding="utf-8").splitlines()[:count]
    more = islice(generate.orders(), len(lines), count)
    return [*lines, *(generate.as_line(order) for order in more)]


async def run(folder: Path, count: int, watcher: Watcher) -> Run:
    """Check out ``count`` orders in ``folder``, which holds the books afterwards."""
    lines = sample_orders(count)
    (folder / ORDERS_FILE).write_text("\n".join(lines) + "\n", encoding="utf-8")
    orders = [msgspec.json.decode(line, type=Order) for line in lines]
    began = elapsed_seconds()
    async with _world(folder, orders) as workers:
        watcher.tell(f"{WORKERS} workers, a payment service and a warehouse are up; {count} orders come in")
        day = _Day(orders, workers, watcher)
        try:
            async with asyncio.timeout(PATIENCE_SECONDS):
                await day.pass_by()
        except TimeoutError:
            watcher.tell(f"not every order has ended within {PATIENCE_SECONDS:.0f} s")
    return Run(kills=day.kills, elapsed_seconds=elapsed_seconds() - began)


async def _stock_up(orders: Sequence[Order]) -> None:
    """Enough of everything, except the lamp, which is sold out."""
    wanted: Counter[str] = Counter()
    for order in orders:
        for line in order.lines:
            wanted[line.sku] += max(line.quantity, 0)

    def work(sql: hf.SqlCursor) -> tuple[tuple[()], None]:
        for statement in SCHEMA:
            sql.execute(statement)
        for sku in CATALOGUE:
            amount = 0 if sku == SOLD_OUT else wanted[sku] + SPARE
            sql.execute("INSERT INTO stock VALUES (?, ?, ?)", (sku, amount, amount))
        return (), None

    transactions = app.runtime().home.transactions
    assert transactions is not None
    await transactions.transact(work)


@asynccontextmanager
async def _world(folder: Path, orders: Sequence[Order]) -> AsyncGenerator[Workers]:
    """The services outside and the workers, in processes of their own; and the app, open here."""
    url = home_url(folder)
    app.home_url = url
    async with AsyncExitStack() as running:
        await running.enter_async_context(app)
        await _stock_up(orders)
        environment = await running.enter_async_context(outside_world(folder, url))
        workers = await Workers.start(folder / "workers.log", url, WORKERS, **environment)
        running.push_async_callback(workers.stop)
        yield workers


class _Day:
    """A day in the shop: orders come in at their pace, workers are killed in the middle of their work."""

    def __init__(self, orders: Sequence[Order], workers: Workers, watcher: Watcher) -> None:
        self.kills: list[Kill] = []
        self._orders = orders
        self._workers = workers
        self._watcher = watcher
        self._outcomes: Counter[str] = Counter()
        self._changed = asyncio.Condition()

    async def pass_by(self) -> None:
        """Return when every order has ended."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._kill_twice())
            tasks.create_task(self._report())
            opened = elapsed_seconds()
            for place, order in enumerate(self._orders):
                await asyncio.sleep(max(0.0, opened + place / ORDERS_PER_SECOND - elapsed_seconds()))
                tasks.create_task(self._check_out(await checkout.start(order, id=order.id)))

    def _has_ended(self, part: float) -> bool:
        return self._ended >= part * len(self._orders)

    @property
    def _ended(self) -> int:
        return self._outcomes.total()

    async def _check_out(self, handle: hf.Handle[Any]) -> None:
        try:
            await handle
            outcome = "confirmed"
        except ExecutionError:
            outcome = "not confirmed"
        async with self._changed:
            self._outcomes[outcome] += 1
            self._changed.notify_all()

    async def _report(self) -> None:
        while self._ended < len(self._orders):
            self._watcher.progress(self._ended, len(self._orders), self._outcomes)
            await asyncio.sleep(TICK_SECONDS)
        self._watcher.progress(self._ended, len(self._orders), self._outcomes)

    async def _kill_twice(self) -> None:
        for part in KILLS_AT:
            async with self._changed:
                await self._changed.wait_for(partial(self._has_ended, part))
            if (busiest := await self._busiest()) is None:
                return
            pid, hands = busiest
            self._watcher.tell(f"kill -9 {pid}, a worker with {len(hands)} orders in its hands")
            successor = await self._workers.kill(pid)
            self.kills.append(Kill(pid, hands, successor))
            self._watcher.tell(f"process {successor} has taken its place")

    async def _busiest(self) -> tuple[int, list[str]] | None:
        """The worker that works on most orders, by the leases in the store; ``None`` if all have ended."""
        while self._ended < len(self._orders):
            page = await app.runtime().home.store.scan(PARTITION_PREFIX, status=RUNNING, limit=1000)
            hands: dict[int, list[str]] = {}
            for head in page.items:
                pid = int((head.owner or "0").partition("-")[0])
                if pid in self._workers.pids:
                    hands.setdefault(pid, []).append(id_of(head.partition))
            if hands:
                return max(hands.items(), key=lambda each: len(each[1]))
            await asyncio.sleep(TICK_SECONDS / 10)
        return None
