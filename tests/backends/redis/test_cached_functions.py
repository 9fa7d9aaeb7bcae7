"""Cached functions on a real Redis that dies and comes back."""

from __future__ import annotations

import asyncio

import pytest

import holdfast as hf
from holdfast.coordination.cache import breaker


@pytest.fixture
def declare(redis_server):
    def make(source, **options):
        app = hf.App("shop", home="memory://", cache=redis_server.url)

        @app.cache(**{"ttl": "1h", "memory_ttl": 0} | options)
        async def number(key: str) -> int:
            source.append(key)
            return len(source)

        return app, number

    return make


async def test_two_processes_share_one_load_and_one_invalidation(declare):
    source = []
    (one, number), (two, other) = declare(source), declare(source)
    async with one, two:
        assert await asyncio.gather(*(each("a") for each in (number, other) * 20)) == [1] * 40
        await other.invalidate("a")
        assert await number("a") == 2
        await number.invalidate_all()
        assert await other("a") == 3


async def test_it_works_without_the_server_and_uses_it_again_when_it_is_back(declare, redis_server, monkeypatch):
    monkeypatch.setattr(breaker, "FIRST_REST_SECONDS", 0.001)
    monkeypatch.setattr(breaker, "LONGEST_REST_SECONDS", 0.001)
    redis_server.kill()
    source = []
    app, number = declare(source)
    async with app:
        assert [await number("a") for _ in range(6)] == [1, 2, 3, 4, 5, 6], "there is no memory tier here"
        with pytest.raises(hf.StoreError, match="Redis did not answer"):
            await number.invalidate("a")
        for _ in range(2):
            redis_server.start()
            async with asyncio.timeout(60):
                while await number("a") != await number("a"):
                    await asyncio.sleep(0.002)
            redis_server.kill()
            assert await number("a") == len(source)


async def test_a_server_that_hangs_costs_a_moment_and_not_the_answer(declare, redis_server, monkeypatch):
    from holdfast.backends.redis import connection

    monkeypatch.setattr(connection, "ANSWER_SECONDS", 0.05)
    source = []
    app, number = declare(source)
    async with app:
        assert await number("a") == 1
        redis_server.stop()
        assert [await number("a") for _ in range(20)] == list(range(2, 22))
        redis_server.resume()
