"""What still takes a transaction where writes are billed, and what it costs: docs/aws.md says the same."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from msgspec.structs import replace

import holdfast as hf
from holdfast.backends.aws.requests import BOUNDS
from holdfast.backends.memory import MemoryData, open_memory_home
from holdfast.cost.metering import MeteringStore, metered
from holdfast.ports import Home
from holdfast.testing import PATIENT, MemoryBus, VirtualClock, run_virtual

PAGE = Path(__file__).parents[2] / "docs" / "aws.md"
APART_SECONDS = 60
RUNS = 12
"""So many that replies have moved out of heads several times."""

TRANSACTION = "TransactWriteItems"


@dataclass
class Paid:
    order: str


async def _figures() -> dict[str, tuple[float, float]]:
    """Write units, and transactions, of each piece of work, on average."""
    data, stores = MemoryData(), list[MeteringStore]()

    async def open_home() -> Home:
        home, store = metered(open_memory_home(data=data))
        stores.append(store)
        return replace(home, bounds=BOUNDS, bus=MemoryBus())

    app = hf.App("shop", home=open_home, clock=VirtualClock(), limits=PATIENT)
    app.to_bus(Paid)

    @app.workflow
    async def pack(order: int) -> int:
        return order

    class Stock(hf.Actor, app=app):
        taken: int = 0

        async def take(self) -> int:
            self.taken += 1
            return self.taken

    class Cart(hf.Actor, app=app):
        count: int = 0

        async def add(self) -> None:
            self.count += 1

        async def check_out(self) -> None:
            self.count += 1
            await pack.start(self.count)

        async def reserve(self) -> None:
            self.count += 1
            await Stock.at("s").take()

        async def refuse(self) -> None:
            raise ValueError("no")

    numbers = iter(range(10_000))
    work: dict[str, Callable[[], Awaitable[Any]]] = {
        "a call of an actor": lambda: Cart.at("c").add(),
        "a call that calls another actor": lambda: Cart.at("c").reserve(),
        "a message to an actor": lambda: hf.send(Cart.at("c").add),
        "a message whose method calls another actor": lambda: hf.send(Cart.at("c").reserve),
        "a workflow": lambda: pack.start(next(numbers), id=f"w{next(numbers)}"),
        "a call that starts a workflow": lambda: Cart.at("c").check_out(),
        "an event that goes to the bus only": lambda: app.publish(Paid(f"o{next(numbers)}")),
    }
    found: dict[str, tuple[float, float]] = {}
    async with app.worker():
        for what, do in work.items():
            await do()
            await asyncio.sleep(APART_SECONDS)
            stores[-1].reset()
            for _ in range(RUNS):
                await do()
                await asyncio.sleep(APART_SECONDS)
            used = stores[-1].meter.usage
            units = stores[-1].meter.total.write_units / RUNS
            found[what] = units, (used[TRANSACTION].requests / RUNS if TRANSACTION in used else 0)
    return found


def test_the_page_says_what_takes_a_transaction_and_what_it_costs() -> None:
    told = re.findall(r"^\| (an? [^|]+) \| (\d+\.\d) \| (\d) \|$", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    found = run_virtual(_figures)
    assert {what: (float(units), int(count)) for what, units, count in told} == {
        what: (round(units, 1), round(count)) for what, (units, count) in found.items()
    }
