"""An invocation gives its loans back before it is frozen."""

from __future__ import annotations

import asyncio
from typing import Any

import holdfast as hf
from holdfast.backends.memory import MemoryData, open_memory_home
from holdfast.flow.permits import lenders_of
from holdfast.items import Put
from holdfast.keys import LIMITS
from holdfast.ports import Home
from holdfast.testing import VirtualClock, run_virtual

START = {"holdfast": "start", "workflow": "job", "input": []}


def declare(app: hf.App) -> hf.Limit:
    limit = app.limit("api", permits=2)

    @app.step(limit=limit)
    async def call() -> str:
        await asyncio.sleep(0.1)
        return "done"

    @app.workflow
    async def job() -> str:
        return await call()

    return limit


def test_an_invocation_gives_back_by_one_write_what_was_lent_to_it() -> None:
    data, written = MemoryData(), list[str]()

    async def open_home() -> Home:
        home = open_memory_home(data=data)
        write = home.store.write

        async def counted(*writes: Any) -> Any:
            written.extend(each.item.partition for each in writes if isinstance(each, Put))
            return await write(*writes)

        home.store.write = counted  # type: ignore[method-assign]
        return home

    async def main() -> None:
        one, other = (hf.App("shop", home=open_home, clock=VirtualClock()) for _ in range(2))
        limit, _ = declare(one), declare(other)
        first, second = one.lambda_handler(), other.lambda_handler()
        await first.invoke(START)
        assert (await limit.status()).loans == ()
        assert sum(each.startswith(LIMITS) for each in written) == 2
        (pool,) = lenders_of(one.runtime())._pools.values()
        assert pool.is_idle
        since = asyncio.get_running_loop().time()
        await second.invoke(START)
        await first.invoke(START)
        assert asyncio.get_running_loop().time() - since < 1
        assert sum(each.startswith(LIMITS) for each in written) == 6
        await first.aclose()
        await second.aclose()

    run_virtual(main)
