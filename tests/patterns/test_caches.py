"""Cached functions: one load at a time, no answer from before an invalidation, and none at all from a broken tier."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import Any

import pytest
from tests.patterns.shared import SharedCache

import holdfast as hf
from holdfast.backends.memory import open_memory_home
from holdfast.testing import run_virtual


@dataclass
class Product:
    sku: str
    price: int
    tags: list[str] = field(default_factory=list)
    revision: int = 0


class Shop:
    """The source behind the caches, which knows who asked for what."""

    def __init__(self):
        self.prices = {"a": 1}
        self.revision = 0
        self.loads = []
        self.seconds = 0.5
        self.broken = False

    async def find(self, sku):
        self.loads.append(sku)
        price, revision = self.prices.get(sku), self.revision
        await asyncio.sleep(self.seconds)
        if self.broken:
            raise ConnectionError("the source is down")
        return None if price is None else Product(sku, price, revision=revision)


def declare(shop, shared=None, **options):
    """An app of its own, as in a process of its own, with one cached function."""
    app = hf.App("shop", home=_home, cache=None if shared is None else shared.open)

    @app.cache(**{"ttl": "10s", "jitter": 0} | options, name="product")
    async def product(sku: str) -> Product | None:
        return await shop.find(sku)

    return app, product


async def _home():
    return open_memory_home()


def now():
    return asyncio.get_running_loop().time()


BOTH = pytest.mark.parametrize("tiers", ["memory", "shared"])


def shared_or_not(tiers):
    return None if tiers == "memory" else SharedCache()


# ── Reading through ─────────────────────────────────────────────────────────────────────────────────────────────────


@BOTH
def test_a_value_is_loaded_once_in_its_time(tiers):
    async def main():
        shop = Shop()
        app, product = declare(shop, shared_or_not(tiers))
        async with app:
            for _ in range(5):
                assert (await product("a")).price == 1
                await asyncio.sleep(1.5)
            assert shop.loads == ["a"]
            await asyncio.sleep(10.0)
            await product(sku="a")
            assert shop.loads == ["a", "a"]

    run_virtual(main)


@BOTH
def test_however_many_ask_one_loads(tiers):
    async def main():
        shop = Shop()
        app, product = declare(shop, shared_or_not(tiers))
        async with app:
            found = await asyncio.gather(*(product(sku) for sku in "ab" * 50))
            assert sorted(shop.loads) == ["a", "b"]
            found[0].tags.append("mine")
            assert found[2].tags == [], "each has a value of his own"
            assert (await product("a")).tags == []

    run_virtual(main)


def test_however_many_processes_ask_one_loads():
    async def main():
        shop, shared = Shop(), SharedCache()
        processes = [declare(shop, shared) for _ in range(5)]
        for app, _ in processes:
            await app.__aenter__()
        found = await asyncio.gather(*(product("a") for _, product in processes for _ in range(10)))
        assert {each.price for each in found} == {1}
        assert shop.loads == ["a"]
        assert shared.asked < 200
        for app, _ in processes:
            await app.__aexit__(None, None, None)

    run_virtual(main)


@BOTH
def test_that_there_is_nothing_is_remembered_for_a_time_of_its_own(tiers):
    async def main():
        shop = Shop()
        app, product = declare(shop, shared_or_not(tiers), missing_ttl="2s")
        async with app:
            assert await product("none") is None
            assert await product("none") is None
            assert shop.loads == ["none"]
            await asyncio.sleep(2.5)
            shop.prices["none"] = 5
            assert (await product("none")).price == 5

    run_virtual(main)


@BOTH
def test_an_error_reaches_everybody_who_waits_and_is_not_remembered(tiers):
    async def main():
        shop = Shop()
        shop.broken = True
        app, product = declare(shop, shared_or_not(tiers))
        async with app:
            outcomes = await asyncio.gather(*(product("a") for _ in range(5)), return_exceptions=True)
            assert [type(each) for each in outcomes] == [ConnectionError] * 5
            assert len(shop.loads) == 1
            shop.broken = False
            assert (await product("a")).price == 1

    run_virtual(main)


@BOTH
def test_whoever_goes_away_does_not_stop_the_load_for_the_others(tiers):
    async def main():
        shop = Shop()
        app, product = declare(shop, shared_or_not(tiers))
        async with app:
            first = asyncio.ensure_future(product("a"))
            await asyncio.sleep(0.1)
            second = asyncio.ensure_future(product("a"))
            first.cancel()
            assert (await second).price == 1
            assert shop.loads == ["a"]

    run_virtual(main)


def test_memory_holds_so_many_and_forgets_the_least_used():
    async def main():
        shop = Shop()
        app, product = declare(shop, None, max_entries=3)
        async with app:
            for sku in "abcad":
                await product(sku)
            assert shop.loads == ["a", "b", "c", "d"]
            await product("a")
            await product("b")
            assert shop.loads == ["a", "b", "c", "d", "b"]

    run_virtual(main)


def test_values_that_were_loaded_together_do_not_expire_together():
    async def main():
        shop = Shop()
        app, product = declare(shop, None, ttl="100s", jitter=0.5)
        async with app:
            await asyncio.gather(*(product(f"p{n}") for n in range(50)))
            await asyncio.sleep(75.0)
            await asyncio.gather(*(product(f"p{n}") for n in range(50)))
            assert 10 < len(shop.loads) - 50 < 40

    run_virtual(main)


def test_a_process_that_dies_while_it_loads_holds_others_up_for_the_fill_timeout_at_most():
    async def main():
        shop, shared = Shop(), SharedCache()
        (one, one_product), (two, two_product) = declare(shop, shared), declare(shop, shared, fill_timeout="3s")
        async with one, two:
            shop.seconds = 1e6
            dying = asyncio.ensure_future(one_product("a"))
            await asyncio.sleep(0.1)
            shop.seconds, began = 0.1, now()
            assert (await two_product("a")).price == 1
            assert now() - began < 4.0
            dying.cancel()

    run_virtual(main)


# ── Stale values ────────────────────────────────────────────────────────────────────────────────────────────────────


@BOTH
def test_a_stale_value_is_answered_at_once_while_one_loads(tiers):
    async def main():
        shop = Shop()
        app, product = declare(shop, shared_or_not(tiers), stale="5s")
        async with app:
            await product("a")
            await asyncio.sleep(11.0)
            shop.prices["a"] = 2
            began = now()
            assert {each.price for each in await asyncio.gather(*(product("a") for _ in range(10)))} == {1}
            assert now() - began < 0.1
            assert shop.loads == ["a", "a"]
            await asyncio.sleep(1.0)
            assert (await product("a")).price == 2
            await asyncio.sleep(16.0)
            shop.prices["a"] = 3
            assert (await product("a")).price == 3, "too stale to be answered"

    run_virtual(main)


@BOTH
def test_a_stale_value_stands_in_for_a_source_that_fails(tiers):
    async def main():
        shop = Shop()
        app, product = declare(shop, shared_or_not(tiers), stale_if_error="60s")
        async with app:
            await product("a")
            await asyncio.sleep(12.0)
            shop.broken = True
            for _ in range(20):
                assert (await product("a")).price == 1
            assert len(shop.loads) == 2, "the source is left in peace for a moment"
            assert app.telemetry.counts["cache_failed"] == 1
            await asyncio.sleep(2.0)
            shop.broken = False
            shop.prices["a"] = 2
            assert (await product("a")).price == 2
            shop.broken = True
            await asyncio.sleep(80.0)
            with pytest.raises(ConnectionError):
                await product("a")

    run_virtual(main)


# ── Invalidating ────────────────────────────────────────────────────────────────────────────────────────────────────


@BOTH
def test_after_an_invalidation_nobody_gets_the_old_value(tiers):
    async def main():
        shop = Shop()
        app, product = declare(shop, shared_or_not(tiers), stale="1h", stale_if_error="1h")
        async with app:
            for invalidate in (lambda: product.invalidate("a"), product.invalidate_all):
                await product("a")
                shop.prices["a"] += 1
                await invalidate()
                assert (await product("a")).price == shop.prices["a"]

    run_virtual(main)


def test_arguments_that_only_python_takes_for_equal_have_keys_of_their_own():
    async def main():
        app = hf.App("shop", home=_home)

        @app.cache(ttl="10s")
        async def told(of: Any) -> str:
            return repr(of)

        async with app:
            for _ in range(2):
                assert [await told(of) for of in (1, True, "1", "true")] == ["1", "True", "'1'", "'true'"]
            told._signature = None  # a hit does not encode its argument again
            assert await told("1") == "'1'"

    run_virtual(main)


@BOTH
def test_a_whole_number_that_is_passed_for_a_float_is_the_same_key(tiers):
    async def main():
        shared = shared_or_not(tiers)
        app = hf.App("shop", home=_home, cache=None if shared is None else shared.open)
        rates = {1.0: 100, 2.5: 7}

        @app.cache(ttl="10s")
        async def rate(of: float, *, by: float = 1.0, among: list[float] = []) -> int:  # noqa: B006 - never changed
            return rates[of]

        async with app:
            assert await rate(1.0) == await rate(1) == await rate(1, by=1) == 100
            rates[1.0] = 200
            await rate.invalidate(1)
            assert await rate(1.0) == 200, "it was loaded after the invalidation"
            assert await rate(1.0, among=[1, 2.5]) == 200
            rates[1.0] = 300
            await rate.invalidate(1, among=[1.0, 2.5])
            assert await rate(1.0, among=[1, 2.5]) == 300
            assert await rate(2.5) == 7

    run_virtual(main)


@BOTH
def test_a_slow_reader_does_not_bring_the_old_value_back(tiers):
    async def main():
        shop = Shop()
        app, product = declare(shop, shared_or_not(tiers))
        async with app:
            slow = asyncio.ensure_future(product("a"))
            await asyncio.sleep(0.2)  # it has read the old price, and is on its way back
            shop.prices["a"] = 2
            await product.invalidate("a")
            assert (await product("a")).price == 2, "whoever asks after the invalidation waits for nobody from before"
            assert (await slow).price == 1, "it began before"
            assert (await product("a")).price == 2
            assert shop.loads == ["a", "a"]

    run_virtual(main)


@BOTH
def test_a_slow_reader_that_arrives_last_is_not_kept(tiers):
    async def main():
        shop = Shop()
        app, product = declare(shop, shared_or_not(tiers), stale="1h", stale_if_error="1h")
        async with app:
            shop.seconds = 5.0
            slow = asyncio.ensure_future(product("a"))
            await asyncio.sleep(0.2)
            shop.prices["a"], shop.seconds = 2, 0.1
            await product.invalidate("a")
            assert (await product("a")).price == 2
            assert (await slow).price == 1
            assert (await product("a")).price == 2

    run_virtual(main)


@BOTH
def test_a_slow_refresh_that_arrives_last_is_not_kept(tiers):
    async def main():
        shop = Shop()
        app, product = declare(shop, shared_or_not(tiers), stale="1h")
        async with app:
            await product("a")
            await asyncio.sleep(12.0)
            shop.seconds = 5.0
            assert (await product("a")).price == 1
            await asyncio.sleep(0.2)  # the refresh has read the old price
            shop.prices["a"], shop.seconds = 2, 0.1
            await product.invalidate("a")
            assert (await product("a")).price == 2
            await asyncio.sleep(6.0)
            assert (await product("a")).price == 2

    run_virtual(main)


def test_a_slow_reader_elsewhere_does_not_bring_the_old_value_back():
    async def main():
        shop, shared = Shop(), SharedCache()
        (one, slow_product), (two, product) = declare(shop, shared), declare(shop, shared)
        async with one, two:
            slow = asyncio.ensure_future(slow_product("a"))
            await asyncio.sleep(0.2)
            shop.prices["a"] = 2
            await product.invalidate("a")
            assert (await slow).price == 1
            assert (await product("a")).price == 2
            assert (await slow_product("a")).price == 2, "what was refused is not kept in memory either"

    run_virtual(main)


def test_another_process_answers_from_memory_for_the_memory_ttl_at_most():
    async def main():
        shop, shared = Shop(), SharedCache()
        (one, one_product), (two, two_product) = declare(shop, shared), declare(shop, shared, memory_ttl="500ms")
        async with one, two:
            await one_product("a")
            await two_product("a")
            shop.prices["a"] = 2
            await one_product.invalidate("a")
            invalidated_at = now()
            while (await two_product("a")).price == 1:
                await asyncio.sleep(0.01)
            assert now() - invalidated_at < 0.5 + shop.seconds + 0.1, "the bound, and one load"

    run_virtual(main)


@BOTH
def test_a_source_whose_copies_lag_behind_is_asked_by_version(tiers):
    async def main():
        shop = Shop()
        app, product = declare(shop, shared_or_not(tiers), version=lambda found: found.revision)
        async with app:
            assert (await product("a")).revision == 0
            await product.invalidate_below(1, "a")
            for _ in range(3):
                assert (await product("a")).revision == 0, "answered, for the source has nothing newer, but not kept"
            assert len(shop.loads) == 4
            shop.revision = 1
            for _ in range(3):
                assert (await product("a")).revision == 1
            assert len(shop.loads) == 5

    run_virtual(main)


# ── A shared tier that fails ────────────────────────────────────────────────────────────────────────────────────────


def test_a_shared_tier_that_is_down_from_the_start_is_done_without_until_it_is_there():
    async def main():
        shop, shared = Shop(), SharedCache()
        shared.down = True
        app, product = declare(shop, shared)
        async with app:
            for _ in range(40):
                assert (await product("a")).price == 1
                await asyncio.sleep(1.1)
            assert shared.asked < 15, "it is left alone while it is down"
            shared.down = False
            await asyncio.sleep(31.0)
            await product("a")
            loads = len(shop.loads)
            for _ in range(5):
                await asyncio.sleep(1.5)
                await product("a")
            assert len(shop.loads) == loads, "it is used again"

    run_virtual(main)


def test_an_invalidation_that_the_shared_tier_did_not_hear_is_told_again_before_it_is_asked():
    async def main():
        shop, shared = Shop(), SharedCache()
        (one, product), (two, other) = declare(shop, shared), declare(shop, shared, memory_ttl=0)
        async with one, two:
            await product("a")
            shop.prices["a"] = 2
            shared.down = True
            for invalidate in (lambda: product.invalidate("a"), product.invalidate_all):
                with pytest.raises(hf.StoreError):
                    await invalidate()
            assert (await product("a")).price == 2, "here it is forgotten all the same"
            shared.down = False
            assert (await other("a")).price == 1, "others have not heard of it"
            await asyncio.sleep(5.0)
            assert (await product("a")).price == 2
            assert (await other("a")).price == 2, "now they have"

    run_virtual(main)


def test_a_value_that_other_code_wrote_and_this_cannot_read_is_loaded_again():
    async def main():
        shared, shop = SharedCache(), Shop()
        app, product = declare(shop, shared)
        older = hf.App("shop", home=_home, cache=shared.open)

        @older.cache(ttl="1h", name="product")
        async def product_then(sku: str) -> list[int]:
            return [1]

        async with older, app:
            await product_then("a")
            assert (await product("a")).price == 1
            assert shop.loads == ["a"]

    run_virtual(main)


# ── Declared ────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"ttl": 0}, "must be positive"),
        ({"ttl": -1}, "must be 0 to"),
        ({"ttl": "soon"}, "is no duration"),
        ({"ttl": True}, "a number of seconds"),
        ({"ttl": 1, "missing_ttl": -1}, "must be 0 to"),
        ({"ttl": 1, "stale": -1}, "must be 0 to"),
        ({"ttl": 1, "stale_if_error": float("nan")}, "must be 0 to"),
        ({"ttl": 1, "memory_ttl": "-1s"}, "is no duration"),
        ({"ttl": 1, "fill_timeout": 0}, "must be positive"),
        ({"ttl": 1, "jitter": 1}, "jitter must be a share"),
        ({"ttl": 1, "jitter": "x"}, "jitter must be a share"),
        ({"ttl": 1, "max_entries": 0}, "at least 1"),
        ({"ttl": 1, "max_entries": 2.5}, "at least 1"),
    ],
)
def test_bad_input_is_refused_where_it_is_given(options, told):
    with pytest.raises(hf.InvalidInput, match=told):
        hf.App("shop").cache(**options)


def test_a_name_is_taken_once_and_only_coroutine_functions_are_cached():
    app, _ = declare(Shop())
    with pytest.raises(hf.DuplicateName):
        app.cache(ttl=1, name="product")(declare)
    with pytest.raises(hf.ConfigurationError, match="must be an async def"):
        app.cache(ttl=1)(lambda: 1)
    with pytest.raises(hf.InvalidInput, match="name of a cache"):
        app.cache(ttl=1, name="")(_home)


def test_wrong_arguments_and_answers_are_refused_by_name():
    async def main():
        app, product = declare(Shop())

        @app.cache(ttl=1, name="wrong")
        async def wrong() -> int:
            return "text"  # type: ignore[return-value]

        with pytest.raises(hf.ConfigurationError, match="is not open"):
            await product("a")
        async with app:
            with pytest.raises(hf.InvalidInput, match="missing argument 'sku'"):
                await product()
            with pytest.raises(hf.SerializationError, match="result of cached function 'wrong'"):
                await wrong()
            with pytest.raises(hf.ConfigurationError, match="has no versions"):
                await product.invalidate_below(1, "a")

    run_virtual(main)


@pytest.mark.parametrize("url", ["http://localhost", "redis", "redis://host:port", "sqlite:///x.db"])
async def test_a_url_that_names_no_cache_is_refused_when_the_app_opens(url):
    with pytest.raises(hf.ConfigurationError, match="names no"):
        await hf.App("shop", home="memory://", cache=url).__aenter__()
