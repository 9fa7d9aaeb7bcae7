"""The checkout: orders come in over HTTP and by SQS, each twice; then the books of shop and bank are compared."""

from __future__ import annotations

import asyncio
import contextlib
from functools import partial
from pathlib import Path

import msgspec
from examples.on_aws.app import app
from examples.on_aws.checkout import Shelf, checkout, reservations, sales, shelves
from examples.on_aws.cloud import Cloud
from examples.on_aws.patience import patiently

import holdfast as hf
from holdfast.crew.ledger import LEDGER_FILE, Entry
from holdfast.demo.audit import Audit, Tables, compare, read_lines
from holdfast.demo.run import SOLD_OUT, SPARE, sample_orders
from holdfast.demo.shop import CATALOGUE, Order
from holdfast.errors import ExecutionError
from holdfast.workflows.history import load
from holdfast.workflows.record import partition_of

IN_FLIGHT = 6
"""So many orders at a time: a sixth of a second of the stand-in for each."""


async def stock_up(orders: list[Order]) -> None:
    """Enough of everything, but for the lamp, which is not made any more."""
    wanted = dict.fromkeys(CATALOGUE, SPARE)
    for order in orders:
        for line in order.lines:
            if line.sku in wanted:
                wanted[line.sku] += max(line.quantity, 0)
    for sku, pieces in wanted.items():
        there = 0 if sku == SOLD_OUT else pieces
        await patiently(partial(_fill, sku, Shelf(there, there)))


async def _fill(sku: str, shelf: Shelf) -> None:
    with contextlib.suppress(hf.Conflict):  # we have done it before, and did not hear so
        await shelves.at(sku).create(shelf)


async def shopping(cloud: Cloud, folder: Path, count: int) -> str:
    """Check out so many orders, and compare. Answers what there is to tell."""
    lines = sample_orders(count)
    orders = [msgspec.json.decode(line, type=Order) for line in lines]
    await stock_up(orders)
    gate = asyncio.Semaphore(IN_FLIGHT)

    async def one(number: int, line: str) -> None:
        async with gate:
            order = orders[number]
            body = msgspec.json.decode(line)
            if number % 2:
                await cloud.http_twice(f"/v1/workflows/checkout/{order.id}", [body])
            else:
                await cloud.command(holdfast="start", workflow="checkout", id=order.id, input=[body])
            await cloud.ring(partition_of("checkout", order.id))
            await ended(order.id)

    await asyncio.gather(*(one(number, line) for number, line in enumerate(lines)))
    audit = await audited(folder, orders)
    assert not audit.problems, "; ".join(audit.problems[:5])
    return (
        f"{audit.orders} orders: {audit.confirmed} confirmed, {audit.compensated} compensated, {audit.rejected} "
        f"rejected; {audit.charges_attempted} charges attempted, {audit.duplicate_charges_accepted} twice"
    )


async def ended(order: str) -> None:
    """Wait until the checkout has ended, however."""
    with contextlib.suppress(ExecutionError):
        await patiently(checkout.handle(order).result)


async def audited(folder: Path, orders: list[Order]) -> Audit:
    """The bank's ledger against the shop's documents and executions."""
    store = app.runtime().home.store
    executions = {
        order.id: await patiently(partial(load, store, partition_of("checkout", order.id))) for order in orders
    }
    tables = Tables(sales=[], reservations=[], stock=[])
    for order in orders:
        if (sale := await patiently(sales.at(order.id).find)) is not None:
            tables.sales.append((order.id, sale.value.payment))
        if (reservation := await patiently(reservations.at(order.id).find)) is not None:
            tables.reservations.extend((order.id, line.sku, line.quantity) for line in reservation.value.lines)
    for sku in CATALOGUE:
        shelf = (await patiently(shelves.at(sku).get)).value
        tables.stock.append((sku, shelf.initial, shelf.free))
    return compare(orders, read_lines(folder / LEDGER_FILE, Entry), dict(executions), tables)
