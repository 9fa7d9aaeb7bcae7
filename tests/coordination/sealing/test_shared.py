"""What is sealed on Redis: values of cached functions and their arguments, and sessions."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from redis import Redis
from tests.coordination.sealing.secrets_kept import CARD, Cipher, found_in
from tests.redis_server import RedisServer, redis_server

import holdfast as hf
from holdfast.backends.redis import open_redis
from holdfast.backends.redis.sessions import RedisSessions
from holdfast.errors import StoreUnusable
from holdfast.shared import Shared

__all__ = ["redis_server"]


@pytest.fixture
def redis(redis_server: RedisServer) -> Redis:
    """One that writes down every change, without packing anything."""
    client = Redis.from_url(redis_server.url)
    client.config_set("aof-use-rdb-preamble", "no")
    client.config_set("appendonly", "yes")
    return client


def written(redis: Redis, folder: Path) -> bytes:
    """Every byte of every change."""
    redis.config_set("appendonly", "no")  # which writes the rest down
    return b"".join(path.read_bytes() for path in folder.rglob("*.aof*"))


def shop(redis_server: RedisServer, seal: hf.Seal | hf.SealedOnly | None) -> hf.App:
    return hf.App("shop", home="memory://", cache=redis_server.url, seal=seal)


def lookups(app: hf.App, asked: list[str]):
    @app.cache(ttl="1h", memory_ttl="0s")
    async def owner_of(card: str) -> str:
        asked.append(card)
        return f"the owner of {card}"

    return owner_of


@pytest.mark.parametrize("is_sealed", [True, False])
async def test_neither_values_nor_arguments_can_be_read(redis_server, redis, tmp_path, is_sealed):
    app, asked = shop(redis_server, Cipher(b"key") if is_sealed else None), []
    owner_of, visits = lookups(app, asked), app.session("visit", idle="1h", lifetime="1d", on="cache")
    async with app:
        assert [await owner_of(CARD), await owner_of(CARD)] == [f"the owner of {CARD}"] * 2
        session = await visits.start({"card": CARD})
        await visits.update(session.id, {"more": [CARD]}, without=["nothing"])
        new_id = await visits.rotate(session.id)
        await visits.update(new_id, {"last": CARD})
        found = await visits.find(new_id)
        assert found is not None and found.values == {"card": CARD, "more": [CARD], "last": CARD}
        newest = await visits.rotate(new_id)
        again = await visits.find(newest)
        assert again is not None and again.values == found.values
        assert await visits.find(new_id) is None
    assert asked == [CARD]
    data = written(redis, tmp_path)
    assert b"holdfast:shop:" in data
    assert bool(found_in(data)) is not is_sealed


def entries(redis: Redis) -> list[bytes]:
    return list(redis.scan_iter("*owner_of*:*"))


async def test_a_value_that_was_moved_planted_or_sealed_by_another_key_is_no_value(redis_server, redis):
    asked: list[str] = []
    async with (app := shop(redis_server, Cipher(b"key"))):
        owner_of = lookups(app, asked)
        await owner_of("mine")
        await owner_of("yours")
        mine, yours = sorted(entries(redis))
        stolen = redis.hget(yours, "v")
        for planted in (stolen, b'"anybody"', b"\2rubbish"):
            redis.hset(mine, "v", planted)
            assert [await owner_of("mine"), await owner_of("yours")] == ["the owner of mine", "the owner of yours"]
    assert sorted(asked) == ["mine"] * 4 + ["yours"] or sorted(asked) == ["mine"] + ["yours"] * 4


def kept(redis: Redis) -> list[bytes]:
    return sorted(redis.scan_iter("*visit#*"))


async def test_a_value_of_anothers_session_does_not_open(redis_server, redis):
    async with (app := shop(redis_server, Cipher(b"key"))):
        visits = app.session("visit", idle="1h", lifetime="1d", on="cache")
        alice, bob = await visits.start({"user": "alice"}), await visits.start({"user": "bob"})
        moved = await visits.rotate(bob.id)
        first, second = kept(redis)
        whole = redis.hgetall(first), redis.hgetall(second)
        for key, other in ((first, whole[1]), (second, whole[0])):
            redis.hset(key, mapping=other)
        for id in (alice.id, moved):
            with pytest.raises(StoreUnusable, match="does not unseal"):
                await visits.find(id)


async def test_a_value_does_not_open_under_another_name_of_its_session(redis_server, redis):
    async with (app := shop(redis_server, Cipher(b"key"))):
        visits = app.session("visit", idle="1h", lifetime="1d", on="cache")
        visit = await visits.start({"user": "bob", "admin": False, "asked": True})
        (key,) = kept(redis)
        redis.hset(key, "fadmin", redis.hget(key, "fasked"))
        with pytest.raises(StoreUnusable, match="does not unseal"):
            await visits.find(visit.id)


async def test_a_session_does_not_take_for_its_past_what_another_one_was_before(redis_server, redis):
    async with (app := shop(redis_server, Cipher(b"key"))):
        visits = app.session("visit", idle="1h", lifetime="1d", on="cache")
        alice = await visits.start({"user": "alice"})
        (place,) = kept(redis)
        await visits.rotate((await visits.start({"user": "bob"})).id)
        (other,) = {*kept(redis)} - {place}
        before = redis.hget(other, b"f\n@" + other.rpartition(b":")[2])
        assert before is not None
        redis.hset(place, mapping={b"f\n@" + place.rpartition(b":")[2]: before, b"fuser": redis.hget(other, "fuser")})
        with pytest.raises(StoreUnusable, match="does not unseal"):
            await visits.find(alice.id)


@pytest.mark.parametrize("calls", [0, 1])
async def test_a_session_is_where_it_was_if_its_process_dies_before_it_has_moved(redis_server, monkeypatch, calls):
    """Each call of Redis but the last leaves it under the id that its visitor knows."""
    async with (app := shop(redis_server, Cipher(b"key"))):
        visits = app.session("visit", idle="1h", lifetime="1d", on="cache")
        visit = await visits.start({"user": "ann"})
        made: list[str] = []

        def dying(name: str) -> Any:
            real = getattr(RedisSessions, name)

            async def call(*arguments: Any) -> Any:
                if len(made) == calls:
                    raise hf.StoreError("the process has died")
                made.append(name)
                return await real(*arguments)

            return call

        with monkeypatch.context() as patched:
            for name in ("move", "change"):
                patched.setattr(RedisSessions, name, dying(name))
            with pytest.raises(hf.StoreError):
                await visits.rotate(visit.id)
        assert (await visits.find(visit.id)).values == {"user": "ann"}
        moved = await visits.rotate(visit.id)
        assert await visits.find(visit.id) is None
        assert (await visits.find(await visits.rotate(moved))).values == {"user": "ann"}


@pytest.mark.parametrize("is_strict", [True, False])
async def test_a_session_from_before_the_seal_is_found_unless_only_sealed_ones_are(redis_server, is_strict):
    async with (app := shop(redis_server, None)):
        visit = await app.session("visit", idle="1h", lifetime="1d", on="cache").start({"user": "ann"})
    cipher = Cipher(b"key")
    async with (app := shop(redis_server, hf.SealedOnly(cipher) if is_strict else cipher)):
        visits = app.session("visit", idle="1h", lifetime="1d", on="cache")
        if is_strict:
            with pytest.raises(StoreUnusable, match="not sealed"):
                await visits.find(visit.id)
        else:
            found = await visits.find(visit.id)
            assert found is not None and found.values == {"user": "ann"}


@pytest.mark.parametrize("begins", [b"\0", b"\0" + b"a" * 64 + b"-5"], ids=["a mark", "a reference"])
@pytest.mark.parametrize("ends", [b"", b'"evil"', b"k"])
@pytest.mark.parametrize("is_strict", [True, False])
async def test_a_value_that_looks_like_what_keeps_a_blob_is_refused(redis_server, redis, begins, ends, is_strict):
    cipher = Cipher(b"key")
    async with (app := shop(redis_server, hf.SealedOnly(cipher) if is_strict else cipher)):
        visits = app.session("visit", idle="1h", lifetime="1d", on="cache")
        visit = await visits.start({"user": "bob"})
        (key,) = kept(redis)
        redis.hset(key, "fuser", begins + ends)
        with pytest.raises(StoreUnusable, match="not sealed"):
            await visits.find(visit.id)
        moved = await visits.rotate(visit.id)
        with pytest.raises(StoreUnusable, match="not sealed"):
            await visits.find(moved)


async def test_what_an_app_of_ones_own_shares_is_sealed_too(redis_server, redis, tmp_path):
    def of_my_own() -> Shared:
        return open_redis(redis_server.url, "mine:")

    app = hf.App("shop", home="memory://", cache=of_my_own, seal=Cipher(b"key"))
    async with app:
        await app.session("visit", idle="1h", lifetime="1d", on="cache").start({"card": CARD})
    assert not found_in(written(redis, tmp_path))
