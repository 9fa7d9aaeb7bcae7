"""One run of the demonstration: the world is set up, orders come in, workers are killed, and all is waited for."""

from __future__ import annotations

import asyncio
import contextlib
import os
import sqlite3
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, closing
from itertools import islice
from pathlib import Path
from typing import Any, Final, Protocol

from msgspec import Struct

import holdfast as hf
from holdfast.clock import elapsed_seconds
from holdfast.demo import generate
from holdfast.demo.audit import HOME_FILE, INVENTORY_FILE, LEDGER_FILE, ORDERS_FILE, home_url
from holdfast.demo.generate import SPECIAL
from holdfast.demo.processes import Child, Workers
from holdfast.demo.shop import CATALOGUE, Order, app, checkout
from holdfast.errors import ConfigurationError, ExecutionError
from holdfast.workflows.record import PARTITION_PREFIX, RUNNING, id_of

WORKERS: Final = 2
KILLS_AT: Final = (1 / 3, 2 / 3)
"""When a worker is killed: after these parts of the orders have ended, if it has work in its hands then."""

ORDERS_PER_SECOND: Final = 16.0
PATIENCE_SECONDS: Final = 100.0
TICK_SECONDS: Final = 0.1

SCHEMA: Final = """
CREATE TABLE stock (sku TEXT PRIMARY KEY, initial INTEGER NOT NULL, free INTEGER NOT NULL CHECK (free >= 0));
CREATE TABLE reservations (id TEXT PRIMARY KEY, order_id TEXT NOT NULL, state TEXT NOT NULL);
CREATE TABLE reserved_lines (reservation TEXT NOT NULL, order_id TEXT NOT NULL, sku TEXT, quantity INTEGER NOT NULL);
"""


class Kill(Struct, frozen=True):
    """One ``kill -9``: whose, what that process was working on, and whether another took its place."""

    pid: int
    orders: tuple[str, ...]
    replaced: bool


class Run(Struct, frozen=True, kw_only=True):
    """What happened, as far as only the run can know; the rest is for the audit."""

    kills: list[Kill]
    elapsed_seconds: float


class Watcher(Protocol):
    """Whoever is told how it goes."""

    def progress(self, ended: int, orders: int, outcomes: Counter[str]) -> None:
        """So many orders have ended."""
        ...

    def tell(self, text: str) -> None:
        """Something worth a line."""
        ...


def sample_orders(count: int) -> list[str]:
    """The first ``count`` orders, one line of JSON each: those of the data file, and more of the kind if need be."""
    lines = Path(__file__).with_name(ORDERS_FILE).read_text(encoding="utf-8").splitlines()[:count]
    more = islice(generate.orders(), len(lines), count)
    return [*lines, *(generate.as_line(order) for order in more)]


async def run(folder: Path, orders: int, watcher: Watcher) -> Run:
    """Check out so many orders in ``folder``, which holds the books afterwards."""
    lines = sample_orders(orders)
    (folder / ORDERS_FILE).write_text("\n".join(lines) + "\n", encoding="utf-8")
    placed = [app.registry.workflow("checkout").signature.parse(line) for line in lines]
    parsed = [_order_of(data) for data in placed]
    _stock_up(folder / INVENTORY_FILE, parsed)
    began = elapsed_seconds()
    async with _world(folder) as workers:
        watcher.tell(f"{WORKERS} workers, a payment service and a warehouse are up; {orders} orders come in")
        shop = _Shop(parsed, workers, watcher)
        async with asyncio.timeout(PATIENCE_SECONDS):
            await shop.open()
    return Run(kills=shop.kills, elapsed_seconds=elapsed_seconds() - began)


def _order_of(data: bytes) -> Order:
    arguments, _ = checkout.signature.load(data)
    order: Order = arguments[0]
    return order


def _stock_up(path: Path, orders: Sequence[Order]) -> None:
    """Enough of everything, but for the lamp, which is not made any more."""
    wanted: Counter[str] = Counter()
    for order in orders:
        for line in order.lines:
            wanted[line.sku] += max(line.quantity, 0)
    sold_out = SPECIAL[1]
    with closing(sqlite3.connect(path)) as db:
        db.executescript(SCHEMA)
        stock = [(sku, amount, amount) for sku in CATALOGUE for amount in [0 if sku == sold_out else wanted[sku] + 10]]
        db.executemany("INSERT INTO stock VALUES (?, ?, ?)", stock)
        db.commit()
    path.chmod(0o600)


@asynccontextmanager
async def _world(folder: Path) -> AsyncIterator[Workers]:
    """The payment service, the warehouse and the workers, in processes of their own; and the app, open here."""
    url = home_url(folder)
    async with AsyncExitStack() as running:
        app.home_url = url
        await running.enter_async_context(app)
        payments = await Child.start(folder / "payments.log", "holdfast.demo.payments", str(folder / LEDGER_FILE))
        running.push_async_callback(payments.stop)
        warehouse = await Child.start(folder / "warehouse.log", "holdfast.demo.warehouse", url)
        running.push_async_callback(warehouse.stop)
        environment = {
            "SHOP_PAYMENTS_URL": await payments.line(),
            "SHOP_WAREHOUSE_URL": await warehouse.line(),
            "SHOP_INVENTORY": str(folder / INVENTORY_FILE),
        }
        workers = await Workers.start(folder / "workers.log", url, WORKERS, **environment)
        running.push_async_callback(workers.stop)
        yield workers
