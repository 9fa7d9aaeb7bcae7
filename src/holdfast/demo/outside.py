"""The outside world of the demonstration: its payment service and its warehouse, each in a process of its own."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Final

from holdfast.crew.ledger import LEDGER_FILE
from holdfast.crew.process import Child

START_SECONDS: Final = 30.0


@asynccontextmanager
async def outside_world(folder: Path, home_url: str) -> AsyncGenerator[dict[str, str]]:
    """Both services, up while this lasts. Yields the environment variables by which the shop finds them."""
    services = (
        ("SHOP_PAYMENTS_URL", "payments", str(folder / LEDGER_FILE)),
        ("SHOP_WAREHOUSE_URL", "warehouse", home_url),
    )
    async with AsyncExitStack() as running:
        children: dict[str, Child] = {}
        for variable, name, argument in services:
            child = await Child.start(name, folder / f"{name}.log", f"holdfast.demo.{name}", argument)
            running.push_async_callback(child.stop)
            children[variable] = child
        async with asyncio.timeout(START_SECONDS):
            urls = {variable: await child.fact("url") for variable, child in children.items()}
        yield urls
