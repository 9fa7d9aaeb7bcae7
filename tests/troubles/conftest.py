"""One home with many troubles in it, and new ones for troubles that need a home of their own."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest
from tests.troubles.stage import Harmful, Stage, harmful

STORM = 12


@pytest.fixture(scope="session")
def servers() -> Iterator[Harmful]:
    with harmful() as each:
        yield each


@pytest.fixture
def stage(tmp_path, servers) -> Iterator[Stage]:
    """A home with nothing in it."""
    made = Stage(tmp_path)
    made.environment["PLANTED_CLOSED"] = servers.closed
    yield made
    made.close()


@pytest.fixture(scope="session")
def shop(tmp_path_factory, servers) -> Iterator[Stage]:
    """A home with one worker, in which much is in trouble."""
    made = Stage(tmp_path_factory.mktemp("shop"))
    made.environment["PLANTED_CLOSED"] = servers.closed
    asyncio.run(begin_with_old_code(made.code(PLANTED_CODE="old")))
    try:
        made.worker()
        asyncio.run(begin(made.code(), servers))
        yield made
    finally:
        made.close()


async def begin_with_old_code(old: Any) -> None:
    """Executions that are half done when other code is deployed."""
    async with old.app.worker():
        for workflow, id in ((old.tour, "tour-1"), (old.packing, "packing-1")):
            handle = await workflow.start(id=id)
            while (await handle.status()).status != "SUSPENDED":
                await asyncio.sleep(0.005)


async def begin(new: Any, servers: Harmful) -> None:
    """Everything that goes wrong by itself."""
    async with new.app:
        await new.tour.handle("tour-1").signal("arrived", "Lisbon")
        await new.packing.handle("packing-1").signal("packed", "box")
        await new.quote.start("coffee", id="quote-1")
        await new.exchange.start(servers.silent, id="exchange-1")
        await new.limited.start(servers.busy, id="limited-1")
        for number in range(STORM):
            await new.shipment.start(servers.closed, id=f"shipment-{number}")
        await new.approval.start(id="approval-1")
        await new.approval.handle("approval-1").signal("aproved", "yes")
        await new.purchase.start(id="purchase-1")
        await new.parcel.start(id="parcel-1")
        await new.spinning.start(id="spinning-1")
        await new.nightly.start(id="nightly-1")
        await new.app.publish(new.Placed("order-7"))
        await new.app.publish(new.Shipped("order-8"))
