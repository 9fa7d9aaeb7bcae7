"""The cache on Redis does what the cache in memory does, step by step; and keeps the rules of both."""

from __future__ import annotations

import asyncio
from contextlib import suppress

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from holdfast.backends.memory.cache import CacheData, MemoryCache
from holdfast.backends.redis import Connection, RedisCache
from holdfast.errors import StoreUnavailable
from holdfast.ids import new_id

LONG_MS = 1_000_000
"""So much longer than a test that the real clock makes no difference."""

KEYS = st.sampled_from(["a", "b"])
TOKENS = st.sampled_from(["t1", "t2", "t3"])
VERSIONS = st.none() | st.integers(0, 3)

LOOK = st.tuples(st.just("look"), KEYS, TOKENS)
FILL = st.tuples(st.just("fill"), KEYS, TOKENS, st.binary(max_size=3), VERSIONS)
GIVE_UP = st.tuples(st.just("give_up"), KEYS, TOKENS)
FORGET = st.tuples(st.just("forget"), KEYS, st.none() | st.integers(0, 3))
FORGET_ALL = st.tuples(st.just("forget_all"))
AGE = st.tuples(st.just("age"), st.integers(1, 4))
STEPS = st.lists(st.one_of(LOOK, LOOK, FILL, FILL, GIVE_UP, FORGET, FORGET_ALL, AGE), max_size=25)


class Aged:
    """A Redis cache whose entries are made older by moving their times: Redis itself has no clock to set."""

    def __init__(self, url):
        self.connection = Connection(url)
        self.client = self.connection._client
        self.prefix = f"test:{new_id()}:"
        self.cache = RedisCache(self.connection, self.prefix)

    async def age(self, milliseconds):
        async for key in self.client.scan_iter(f"{self.prefix}*:*"):
            if await self.client.type(key) == b"hash":
                for field in ("f", "k", "u"):
                    if await self.client.hexists(key, field):
                        await self.client.hincrby(key, field, -milliseconds)


def seen(answer):
    """What must be the same in both: the remaining times to the hour, as one clock runs and the other does not."""
    hour = LONG_MS
    return (answer.value, round(answer.fresh_ms / hour), round(answer.keep_ms / hour), answer.may_fill)


@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(STEPS)
async def test_it_does_what_the_reference_model_does(shared_redis, steps):
    now = 0
    model = MemoryCache(CacheData(lambda: now))
    real = Aged(shared_redis.url)
    try:
        for step in steps:
            match step:
                case ("look", key, token):
                    asked = ("g", key, token, 2 * LONG_MS)
                    assert seen(await real.cache.look(*asked)) == seen(await model.look(*asked))
                case ("fill", key, token, value, version):
                    told = {"fresh_ms": LONG_MS, "keep_ms": 3 * LONG_MS, "version": version}
                    expected = await model.fill("g", key, token, value, **told)
                    assert await real.cache.fill("g", key, token, value, **told) == expected
                case ("give_up", key, token):
                    await asyncio.gather(model.give_up("g", key, token), real.cache.give_up("g", key, token))
                case ("forget", key, below):
                    for cache in (model, real.cache):
                        await cache.forget("g", key, below=below, keep_ms=100 * LONG_MS)
                case ("forget_all",):
                    await asyncio.gather(model.forget_all("g"), real.cache.forget_all("g"))
                case ("age", times):
                    now += times * LONG_MS
                    await real.age(times * LONG_MS)
    finally:
        await real.cache.close()


# ── What both promise ───────────────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture(params=["memory", "redis"])
def make_cache(request):
    if request.param == "memory":
        return lambda: MemoryCache(CacheData(lambda: 0))
    url = request.getfixturevalue("shared_redis").url
    return lambda: RedisCache(Connection(url), f"test:{new_id()}:")


FRESH = {"fresh_ms": LONG_MS, "keep_ms": LONG_MS}


async def test_one_of_many_may_fill(make_cache):
    cache = make_cache()
    looks = await asyncio.gather(*(cache.look("g", "k", f"t{n}", LONG_MS) for n in range(20)))
    assert sum(look.may_fill for look in looks) == 1
    winner = next(n for n, look in enumerate(looks) if look.may_fill)
    assert (await cache.look("g", "k", f"t{winner}", LONG_MS)).may_fill, "it may ask again: its answer may be lost"
    assert await cache.fill("g", "k", f"t{winner}", b"v", **FRESH)
    assert (await cache.look("g", "k", "t", LONG_MS)).value == b"v"
    await cache.close()


@pytest.mark.parametrize("invalidate", ["forget", "forget_all"])
async def test_whoever_began_before_an_invalidation_is_refused(make_cache, invalidate):
    cache = make_cache()
    assert (await cache.look("g", "k", "slow", LONG_MS)).may_fill
    await (cache.forget("g", "k") if invalidate == "forget" else cache.forget_all("g"))
    assert not await cache.fill("g", "k", "slow", b"old", **FRESH)
    assert (await cache.look("g", "k", "next", LONG_MS)).may_fill
    assert not await cache.fill("g", "k", "slow", b"old", **FRESH)
    assert await cache.fill("g", "k", "next", b"new", **FRESH)
    assert (await cache.look("g", "k", "t", LONG_MS)).value == b"new"
    await cache.close()


async def test_a_lower_version_is_dropped_and_refused(make_cache):
    cache = make_cache()
    await cache.look("g", "k", "one", LONG_MS)
    assert await cache.fill("g", "k", "one", b"v6", version=6, **FRESH)
    await cache.forget("g", "k", below=7, keep_ms=LONG_MS)
    for token, version, stored in (("two", 6, False), ("three", None, False), ("four", 7, True)):
        assert (await cache.look("g", "k", token, LONG_MS)).may_fill
        assert await cache.fill("g", "k", token, b"later", version=version, **FRESH) is stored
    await cache.forget("g", "k", below=7, keep_ms=LONG_MS)
    assert (await cache.look("g", "k", "five", LONG_MS)).value == b"later", "it is of that version"
    await cache.close()


async def test_groups_and_keys_are_apart(make_cache):
    cache = make_cache()
    for group, key in (("g", "k"), ("g", "k2"), ("h", "k")):
        await cache.look(group, key, "t", LONG_MS)
        await cache.fill(group, key, "t", f"{group}{key}".encode(), **FRESH)
    await cache.forget("g", "k")
    await cache.forget_all("h")
    assert [(await cache.look(*place, "u", LONG_MS)).value for place in (("g", "k"), ("g", "k2"), ("h", "k"))] == [
        None,
        b"gk2",
        None,
    ]
    await cache.close()


# ── What only a server can do: die ──────────────────────────────────────────────────────────────────────────────────


async def test_a_server_that_is_not_there_is_unavailable_and_then_is_there(redis_server):
    redis_server.kill()
    cache = RedisCache(Connection(redis_server.url), "test:")
    for ask in (
        lambda: cache.look("g", "k", "t", LONG_MS),
        lambda: cache.fill("g", "k", "t", b"v", **FRESH),
        lambda: cache.give_up("g", "k", "t"),
        lambda: cache.forget("g", "k"),
        lambda: cache.forget("g", "k", below=1),
        lambda: cache.forget_all("g"),
    ):
        with pytest.raises(StoreUnavailable, match="Redis did not answer"):
            await ask()
    redis_server.start()
    assert (await cache.look("g", "k", "t", LONG_MS)).may_fill
    await cache.close()


async def test_a_token_does_not_survive_the_server(redis_server):
    cache = RedisCache(Connection(redis_server.url), "test:")
    await cache.look("g", "k", "t", LONG_MS)
    redis_server.kill()
    redis_server.start()
    with suppress(StoreUnavailable):  # the connection that died is noticed once
        await cache.give_up("g", "other", "t")
    assert not await cache.fill("g", "k", "t", b"v", **FRESH), "it cannot know what was invalidated meanwhile"
    await cache.close()


async def test_nothing_is_kept_for_ever(shared_redis):
    real = Aged(shared_redis.url)
    await real.cache.look("g", "k", "t", 5000)
    await real.cache.look("g", "k2", "t", 5000)
    await real.cache.fill("g", "k2", "t", b"v", fresh_ms=1000, keep_ms=20_000)
    await real.cache.forget("g", "k3", below=4, keep_ms=7000)
    left = {key: await real.client.pttl(f"{real.prefix}{{g}}:{key}") for key in ("k", "k2", "k3")}
    for key, most in (("k", 5000), ("k2", 20_000), ("k3", 7000)):
        assert 0 < left[key] <= most
    await real.cache.close()
