"""The way to the bus under faults: a crash, a pause or a late answer at every write, and at every event that is put."""

from __future__ import annotations

from typing import Any

import pytest
from tests.messaging.places import Placed

import holdfast as hf
from holdfast.app import App
from holdfast.messaging.bus_queue import announced_of
from holdfast.testing import (
    Histories,
    Ledger,
    MemoryDatabase,
    Scenario,
    crash_at_every_write,
    lag_at_every_write,
    pause_at_every_write,
)

ORDERS = ["1", "2", "3"]


class Databases:
    """Each run has a new one; the check looks at the last."""

    def __init__(self) -> None:
        self.last = MemoryDatabase()
        self.repeats = 0

    def __call__(self) -> MemoryDatabase:
        self.last = MemoryDatabase()
        return self.last

    def check(self, ledger: Ledger) -> list[str]:
        said = [announced_of(each.detail) for each in self.last.data.on_bus]
        orders: dict[str, set[str]] = {}
        for each in said:
            orders.setdefault(bytes(each.data).decode(), set()).add(f"{each.origin}/{each.id}")
        self.repeats += len(said) - len(orders)
        wrong = [f"{order} went to the bus under {ids}" for order, ids in orders.items() if len(ids) != 1]
        if len(orders) != len(ORDERS):
            wrong.append(f"the bus has {sorted(orders)} (G5)")
        return wrong


def selling(app: App, ledger: Ledger) -> Any:
    app.to_bus(Placed)

    class Shop(hf.Actor, app=app):
        orders: int = 0

        async def order(self, count: int) -> int:
            for _ in range(count):
                self.orders += 1
                await app.publish(Placed(str(self.orders)))
            return self.orders

    @app.consumer(Placed)
    async def bill(event: Placed) -> None:
        ledger.effect(event.order, key=f"bill {event.order}")

    async def user() -> list[int]:
        return [await Shop.at("s", request_id=f"order {count}").order(count) for count in (1, 2)]

    return user


@pytest.mark.parametrize("fault_at_every", [crash_at_every_write, pause_at_every_write, lag_at_every_write])
@pytest.mark.usefixtures("errors_expected")
def test_each_event_is_on_the_bus_whatever_happens_at_whichever_write(fault_at_every: Any) -> None:
    databases = Databases()
    scenario = Scenario(
        "events for a bus", selling, histories=Histories.FREE, database=databases, check=databases.check
    )
    fault_at_every(scenario)
    assert databases.repeats > 0, "at least once is what it is: a crash after the bus has them repeats events"
