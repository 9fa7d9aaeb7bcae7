"""``python -m examples.checkout_machine``: orders as a state machine and as a workflow, on a file of its own."""

from __future__ import annotations

import asyncio
import tempfile
from pathlib import Path

from examples.checkout_machine import machine, workflow
from examples.checkout_machine.shop import Item, Order, Shop

import holdfast as hf


def order(id: str) -> Order:
    """One lamp for 19.90."""
    return Order(id=id, cents=1_990, items=[Item(sku="lamp", count=1)])


async def main(folder: Path) -> None:
    """Sell two lamps, one in each way; then there is none left."""
    shop = Shop({"lamp": 2})
    machines = hf.App("machines", home=f"sqlite:///{folder}/machines.db")
    workflows = hf.App("workflows", home=f"sqlite:///{folder}/workflows.db")
    as_machine, as_workflow = machine.declare(machines, shop), workflow.declare(workflows, shop)
    async with machines.worker(), workflows.worker():
        handle = await as_machine.start(order("o-1"), id="o-1")
        print("state machine:", await handle)
        print("its operations:", ", ".join(event.name for event in await handle.history()))
        print("workflow:", await as_workflow(order("o-2")))
        for refused in (as_machine(order("o-3")), as_workflow(order("o-4"))):
            try:
                await refused
            except hf.ExecutionFailed as failed:
                print("sold out:", failed.__cause__)
    assert shop.payments == {"o-1": 1_990, "o-2": 1_990}
    assert shop.stock["lamp"] == 0


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(main(Path(folder)))
