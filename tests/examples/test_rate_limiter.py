"""The token bucket: exact at its edges, whatever the limit; and the actor around it."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rate_limiter import PER_DAY, TOKEN, Bucket, Limit, RateLimiter, app, take

from holdfast.testing import run_virtual

TEN_A_SECOND = Limit(tokens=10, per="second", burst=5)
MS = timedelta(milliseconds=1)

limits = st.builds(Limit, st.integers(1, 10_000), st.sampled_from(sorted(PER_DAY)), st.integers(1, 1_000))


# ── The bucket ──────────────────────────────────────────────────────────────────────────────────────────────────────


def test_the_last_token_can_be_had_and_then_none():
    bucket = Bucket(TOKEN, at_ms=0)
    bucket, decision = take(bucket, 1, TEN_A_SECOND)
    assert (decision.allowed, decision.left, bucket.parts) == (True, 0, 0)
    same, decision = take(bucket, 1, TEN_A_SECOND)
    assert same == bucket
    assert (decision.allowed, decision.left, decision.retry_after) == (False, 0, 100 * MS)


def test_a_token_that_is_all_but_there_is_not_there():
    almost = Bucket(TOKEN - 1, at_ms=0)
    _, decision = take(almost, 1, TEN_A_SECOND)
    assert (decision.allowed, decision.left, decision.retry_after) == (False, 0, 1 * MS)


def test_a_bucket_overflows_at_its_burst():
    assert Bucket(0, at_ms=0).at(86_400_000, TEN_A_SECOND).parts == 5 * TOKEN


def test_a_clock_that_goes_back_gives_and_takes_nothing():
    bucket = Bucket(2 * TOKEN, at_ms=10_000)
    assert bucket.at(4_000, TEN_A_SECOND) == bucket
    assert bucket.at(10_100, TEN_A_SECOND).parts == 3 * TOKEN


def test_a_lower_limit_spills_what_is_too_much():
    assert Bucket(5 * TOKEN, at_ms=0).at(0, Limit(tokens=1, per="day", burst=2)).parts == 2 * TOKEN


@pytest.mark.parametrize("tokens", [0, -1, 6])
def test_a_number_that_can_never_be_had_is_an_error(tokens):
    with pytest.raises(ValueError, match="never"):
        take(Bucket(5 * TOKEN, at_ms=0), tokens, TEN_A_SECOND)


@pytest.mark.parametrize(("tokens", "per", "burst"), [(0, "second", 1), (1, "second", 0), (1, "fortnight", 1)])
def test_a_limit_that_makes_no_sense_is_an_error(tokens, per, burst):
    with pytest.raises(ValueError, match="limits nothing"):
        Limit(tokens, per, burst)


@given(limits, st.data())
def test_it_allows_exactly_when_it_said_and_not_a_millisecond_earlier(limit, data):
    tokens = data.draw(st.integers(1, limit.burst))
    bucket = Bucket(data.draw(st.integers(0, tokens * TOKEN - 1)), at_ms=1_000_000)
    _, refused = take(bucket, tokens, limit)
    wait_ms = refused.retry_after // MS
    assert not refused.allowed
    assert wait_ms >= 1
    assert not take(bucket.at(1_000_000 + wait_ms - 1, limit), tokens, limit)[1].allowed
    assert take(bucket.at(1_000_000 + wait_ms, limit), tokens, limit)[1].allowed


@given(limits, st.lists(st.integers(0, 100_000), max_size=30))
def test_looking_often_makes_no_difference(limit, pauses):
    bucket = once = Bucket(0, at_ms=0)
    for pause in pauses:
        bucket = bucket.at(bucket.at_ms + pause, limit)
    assert bucket == once.at(sum(pauses), limit)


@given(limits, st.lists(st.tuples(st.integers(0, 5_000), st.integers(1, 5)), max_size=50))
def test_it_never_gives_more_than_the_burst_and_what_has_come_in(limit, requests):
    bucket, given_out, now = Bucket(limit.burst * TOKEN, at_ms=0), 0, 0
    for pause, tokens in requests:
        now += pause
        bucket, decision = take(bucket.at(now, limit), min(tokens, limit.burst), limit)
        given_out += min(tokens, limit.burst) if decision.allowed else 0
        assert bucket.parts >= 0
        assert given_out * TOKEN <= limit.burst * TOKEN + now * limit.parts_per_ms


# ── The actor ───────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_new_client_has_the_burst_and_then_the_rate(virtually):
    async def main() -> None:
        ann = RateLimiter.at("ann")
        assert await ann.left() == 5
        assert [(await ann.acquire()).left for _ in range(5)] == [4, 3, 2, 1, 0]
        refused = await ann.acquire()
        assert (refused.allowed, refused.retry_after) == (False, 100 * MS)
        await asyncio.sleep(0.099)
        assert (await ann.acquire()).retry_after == 1 * MS
        await asyncio.sleep(0.001)
        assert (await ann.acquire()).allowed
        assert await RateLimiter.at("bob").left() == 5

    virtually(app, main)


def test_an_idle_bucket_is_full_again(virtually):
    async def main() -> None:
        ann = RateLimiter.at("ann")
        await ann.acquire(5)
        assert await ann.left() == 0
        await asyncio.sleep(0.4)
        assert await ann.left() == 4
        await asyncio.sleep(3_600)
        assert await ann.left() == 5

    virtually(app, main)


def test_a_refusal_writes_nothing(virtually):
    async def main() -> None:
        ann = RateLimiter.at("ann")
        await ann.acquire(5)
        before = (await app.actor("RateLimiter", "ann").status()).version
        assert not (await ann.acquire()).allowed
        assert (await app.actor("RateLimiter", "ann").status()).version == before

    virtually(app, main)


def test_what_can_never_be_had_is_an_error_and_costs_nothing(virtually):
    async def main() -> None:
        with pytest.raises(ValueError, match="never"):
            await RateLimiter.at("ann").acquire(6)
        assert await RateLimiter.at("ann").left() == 5

    virtually(app, main)


def test_a_hundred_at_once_get_the_burst(virtually):
    async def main() -> None:
        decisions = await asyncio.gather(*(RateLimiter.at("ann").acquire() for _ in range(100)))
        assert sum(each.allowed for each in decisions) == 5

    virtually(app, main)


def test_two_processes_share_a_bucket_and_the_limit_may_change(shared_app):
    one, two = shared_app("one"), shared_app("two")

    class Before(RateLimiter, app=one, name="RateLimiter"):
        pass

    class After(RateLimiter, app=two, name="RateLimiter"):
        limit = Limit(tokens=1, per="hour", burst=3)

    async def main() -> None:
        async with one.worker(), two.worker():
            assert (await Before.at("ann").acquire(4)).left == 1
            assert (await After.at("ann").acquire()).left == 0
            refused = await Before.at("ann").acquire()
            assert timedelta(0) < refused.retry_after <= timedelta(milliseconds=100)
        async with two.worker():
            refused = await After.at("ann").acquire()
            assert timedelta(minutes=50) < refused.retry_after <= timedelta(hours=1)

    run_virtual(main)
