"""A read-through cache by hand, and ours: in two processes, over one shared cache, under the same schedules."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from types import SimpleNamespace

import pytest
from tests.compared import naive
from tests.patterns.shared import SharedCache

import holdfast as hf
from holdfast.backends.memory import open_memory_home
from holdfast.testing import run_virtual


class Prices:
    """The source: it looks at once, and takes a second to answer."""

    def __init__(self):
        self.price = 1
        self.loads = 0

    async def find(self, sku):
        self.loads += 1
        price = self.price
        await asyncio.sleep(1)
        return price


@asynccontextmanager
async def by_hand(prices):
    cache = naive.Store()
    process = SimpleNamespace(
        price=lambda: naive.read_through(cache, "mug", prices.find), invalidate=lambda: cache.delete("mug")
    )
    yield process, process


@asynccontextmanager
async def ours(prices):
    async def home():
        return open_memory_home()

    def process():
        app = hf.App("shop", home=home, cache=shared.open)

        @app.cache(ttl="5m", jitter=0)
        async def price(sku: str) -> int:
            return await prices.find(sku)

        return app, SimpleNamespace(price=lambda: price("mug"), invalidate=lambda: price.invalidate("mug"))

    shared = SharedCache()
    (first, one), (second, two) = process(), process()
    async with first, second:
        yield one, two


def play(schedule, processes):
    async def main():
        prices = Prices()
        async with processes(prices) as (one, two):
            return await schedule(prices, one, two)

    return run_virtual(main)


async def a_slow_reader(prices, one, two):
    slow = asyncio.ensure_future(one.price())
    await asyncio.sleep(0.5)
    prices.price = 2
    await two.invalidate()
    await slow
    await asyncio.sleep(60)
    return await one.price(), await two.price()


async def a_herd(prices, one, two):
    await asyncio.gather(*(each.price() for each in (one, two) for _ in range(25)))
    return prices.loads


@pytest.mark.parametrize(("processes", "answers"), [(by_hand, (1, 1)), (ours, (2, 2))])
def test_a_slow_reader_brings_the_old_value_back_by_hand_and_not_in_ours(processes, answers):
    assert play(a_slow_reader, processes) == answers


@pytest.mark.parametrize(("processes", "loads"), [(by_hand, 50), (ours, 1)])
def test_a_herd_loads_as_often_as_it_asks_by_hand_and_once_in_ours(processes, loads):
    assert play(a_herd, processes) == loads
