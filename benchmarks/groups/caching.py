"""What a cache hit costs, and what of it is not ours: the same by cachetools, a bare dictionary, redis-py's own GET.

The Redis is one of our own, on loopback; where none is installed, asking for its rows is an error that says so.
"""

from __future__ import annotations

import asyncio
import shutil
import socket
import subprocess
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from typing import Any

import holdfast as hf
from benchmarks.plan import Case, Ours, Params, Row

WARM_UP = 200


async def _microseconds(work: Any, count: int) -> float:
    for _ in range(WARM_UP):
        await work()
    began = time.perf_counter()
    for _ in range(count):
        await work()
    return (time.perf_counter() - began) * 1e6 / count


def _priced(app: hf.App, **options: Any) -> Any:
    @app.cache(**{"ttl": "1h"} | options)
    async def price(sku: str) -> dict[str, int]:
        return {"cents": len(sku), "stock": 7}

    return price


async def in_memory(params: Params) -> Any:
    """A hit in this process's memory, the same by cachetools, and a dictionary; all three behind a coroutine."""
    from cachetools import TTLCache, cached

    app = hf.App("caching", home="memory://")
    price = _priced(app)
    there = {"sku-9": {"cents": 5, "stock": 7}}

    async def bare() -> dict[str, int]:
        return there["sku-9"]

    @cached(TTLCache(maxsize=10_000, ttl=3600))
    def remembered(sku: str) -> dict[str, int]:
        return there[sku]

    async def by_cachetools() -> dict[str, int]:
        return remembered("sku-9")

    async with app:
        values = {
            "memory_us": await _microseconds(lambda: price("sku-9"), params["count"]),
            "cachetools_us": await _microseconds(by_cachetools, params["count"]),
            "dict_us": await _microseconds(bare, params["count"]),
        }
    return values, {}


async def in_redis(params: Params) -> Any:
    """A hit in Redis, one at a time, and the same GET by redis-py."""
    from redis.asyncio import Redis

    async with _redis() as url:
        app = hf.App("caching", home="memory://", cache=url)
        price = _priced(app, memory_ttl=0)
        client = Redis.from_url(url)
        await client.set("sku-9", b'{"cents":5,"stock":7}')
        async with app:
            values = {
                "redis_us": await _microseconds(lambda: price("sku-9"), params["count"]),
                "get_us": await _microseconds(lambda: client.get("sku-9"), params["count"]),
            }
        await client.aclose()
    return values, {}


@asynccontextmanager
async def _redis() -> AsyncGenerator[str]:
    if shutil.which("redis-server") is None:
        raise RuntimeError("redis-server is not installed: its rows are not measured")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    server = _start(port)
    try:
        while True:
            with suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1.0):
                break
            await asyncio.sleep(0.01)
        yield f"redis://127.0.0.1:{port}/0"
    finally:
        server.kill()
        server.wait()


def _start(port: int) -> subprocess.Popen[bytes]:
    options = ["--bind", "127.0.0.1", "--port", str(port), "--save", "", "--appendonly", "no"]
    return subprocess.Popen(["redis-server", *options], stdout=subprocess.DEVNULL)


CASES = (
    Case(
        "cache-memory",
        "caching",
        (Ours("in_memory", {"count": 50_000}, {"count": 5_000}),),
        (
            Row("cache hit in memory", "µs", "lower", "memory_us"),
            Row("the same by cachetools' TTLCache, for comparison", "µs", "lower", "cachetools_us"),
            Row("a dictionary behind a coroutine, for comparison", "µs", "lower", "dict_us"),
        ),
    ),
    Case(
        "cache-redis",
        "caching",
        (Ours("in_redis", {"count": 5_000}, {"count": 500}),),
        (
            Row("cache hit in Redis", "µs", "lower", "redis_us"),
            Row("the same GET by redis-py alone, for comparison", "µs", "lower", "get_us"),
            Row("cache hit in Redis, in GETs", "×", "lower", "redis_us", over="get_us"),
        ),
    ),
)
