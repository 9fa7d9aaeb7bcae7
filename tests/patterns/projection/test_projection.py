"""The order of all events, and projections that count each of them once."""

from __future__ import annotations

import asyncio

import pytest
from tests.coordination.stream.accounts import AccountEvent, Deposited, Withdrawn, accounts, all_of

import holdfast as hf

unordered = pytest.mark.not_on_dynamodb("its writers do not see each other, so it has no order of all events")


def balances(app, source, *, name="balances", batch=10):
    totals = app.documents(int, name=name)

    async def apply(tx, recorded):
        total = totals.at(recorded.key[0])
        cents = recorded.event.cents if isinstance(recorded.event, Deposited) else -recorded.event.cents
        tx.put(total, (await tx.find(total) or 0) + cents)

    return app.projection(name, source, apply, batch=batch), totals


# ── One order ───────────────────────────────────────────────────────────────────────────────────────────────────────


@unordered
async def test_the_events_of_all_streams_are_in_one_order_without_gaps(world):
    async with world.app() as one, world.app() as other:
        streams = [accounts(app, ordered=True) for app in (one, other)]

        async def append(n):
            for _ in range(5):
                await streams[n % 2].at("abc"[n % 3]).append(Deposited(n), Deposited(n))

        await asyncio.gather(*(append(n) for n in range(6)))
        found = await all_of(streams[0].read())
        assert [each.position for each in found] == list(range(1, 61))
        assert await streams[1].position() == 60
        for key in "abc":
            own = [each for each in found if each.key == (key,)]
            assert own == await all_of(streams[0].at(key).read())
        assert await all_of(streams[0].read(after=50)) == found[50:]
        assert await all_of(streams[0].read(after=10, limit=5)) == found[10:15]
        assert await all_of(streams[0].read(after=60)) == []
        assert await all_of(streams[0].read(limit=0)) == []


@unordered
async def test_a_refused_append_uses_up_no_position(world):
    app = world.app()
    async with app:
        streams = accounts(app, ordered=True)
        await streams.at("a").append(Deposited(1), version=0)
        with pytest.raises(hf.Conflict):
            await streams.at("a").append(Deposited(2), version=0)
        await streams.at("b").append(Deposited(3), version=0)
        assert [each.position async for each in streams.read()] == [1, 2]


@unordered
async def test_a_reader_never_sees_a_position_before_all_those_before_it(world):
    async with world.app() as one, world.app() as other:
        streams = [accounts(app, ordered=True) for app in (one, other)]
        seen, done = [0], asyncio.Event()

        async def watch():
            while not done.is_set():
                async for each in streams[1].read(after=seen[-1]):
                    seen.append(each.position)
                await asyncio.sleep(0)

        async def append(n):
            for _ in range(20):
                await streams[n % 2].at(str(n)).append(Deposited(1))

        watching = asyncio.create_task(watch())
        await asyncio.gather(*(append(n) for n in range(4)))
        done.set()
        await watching
        assert seen == list(range(len(seen)))


# ── Projections ─────────────────────────────────────────────────────────────────────────────────────────────────────


@unordered
@pytest.mark.parametrize("batch", [1, 3, 100])
async def test_a_projection_counts_each_event_once_and_goes_on_where_it_stopped(world, batch):
    app = world.app()
    async with app:
        streams = accounts(app, ordered=True)
        projection, totals = balances(app, streams, batch=batch)
        assert (await projection.catch_up(), await projection.position()) == (0, 0)
        for key, cents in (("a", 1), ("b", 10), ("a", 100), ("a", 1000)):
            await streams.at(key).append(Deposited(cents))
        assert await projection.catch_up() == 4
        await streams.at("b").append(Withdrawn(5))
        again, _ = balances(app, streams, batch=batch)
        assert (await again.catch_up(), await again.position()) == (1, 5)
        assert ((await totals.at("a").get()).value, (await totals.at("b").get()).value) == (1101, 5)


@unordered
async def test_projections_that_run_side_by_side_count_each_event_once(world):
    async with world.app() as one, world.app() as other:
        streams = [accounts(app, ordered=True) for app in (one, other)]
        for n in range(20):
            await streams[0].at("ab"[n % 2]).append(Deposited(1))
        sides = [balances(app, each, batch=2) for app, each in zip((one, other), streams, strict=True)]
        counts = await asyncio.gather(*(side.catch_up() for side, _ in sides))
        assert sum(counts) == 20
        assert [(await sides[0][1].at(key).get()).value for key in "ab"] == [10, 10]


@unordered
async def test_a_projection_that_raises_has_had_no_effect_and_stops_there(world):
    app = world.app()
    async with app:
        streams = accounts(app, ordered=True)
        totals = app.documents(int, name="totals")

        async def apply(tx, recorded):
            tx.put(totals.at("all"), (await tx.find(totals.at("all")) or 0) + recorded.event.cents)
            if recorded.event.cents == 3:
                raise ValueError("three")

        projection = app.projection("totals", streams, apply, batch=2)
        for cents in (1, 2, 4, 3):
            await streams.at("a").append(Deposited(cents))
        with pytest.raises(ValueError, match="three"):
            await projection.catch_up()
        assert (await projection.position(), (await totals.at("all").get()).value) == (2, 3)


async def test_a_projection_of_one_stream_needs_no_order_of_all(world):
    app = world.app()
    async with app:
        account = accounts(app).at("a")
        projection, totals = balances(app, account)
        await account.append(Deposited(1), Deposited(2))
        assert (await projection.catch_up(), await projection.position()) == (2, 2)
        assert (await totals.at("a").get()).value == 3


@unordered
async def test_a_projection_that_follows_hears_of_each_event(world, eventually):
    async with world.app() as one, world.app() as other:
        streams = [accounts(app, ordered=True) for app in (one, other)]
        projection, totals = balances(other, streams[1])
        await streams[0].at("a").append(Deposited(1))
        following = asyncio.create_task(projection.follow())
        for _ in range(5):
            await streams[0].at("a").append(Deposited(1))

        async def counted():
            found = await totals.at("a").find()
            return found is not None and found.value == 6

        await eventually(counted)
        following.cancel()
        await asyncio.gather(following, return_exceptions=True)
        assert await projection.position() == 6


@unordered
async def test_a_projection_publishes_with_its_effect(world, eventually):
    app, seen = world.app(), []

    @app.consumer(Deposited)
    async def note(event: Deposited) -> None:
        seen.append(event.cents)

    async def apply(tx, recorded):
        tx.publish(recorded.event, id=recorded.id)

    async with app.worker():
        streams = accounts(app, ordered=True)
        for cents in range(3):
            await streams.at("a").append(Deposited(cents))
        await app.projection("published", streams, apply).catch_up()
        await eventually(lambda: len(seen) == 3)
    assert sorted(seen) == [0, 1, 2]


def test_a_batch_is_at_least_one(memory_world):
    app = memory_world.app()
    with pytest.raises(hf.InvalidInput, match="batch"):
        balances(app, accounts(app, ordered=True), batch=0)


def test_two_projections_of_one_name_would_skip_each_other_s_events(memory_world):
    app = memory_world.app()
    streams = accounts(app, ordered=True)
    for source in (streams, app.streams(AccountEvent, name="accounts")):  # the same one again, as a request makes it
        balances(app, source)
    for other in (streams.at("a"), app.streams(int, name="others", ordered=True)):
        with pytest.raises(hf.DuplicateName, match="two projections have the name 'balances'"):
            balances(app, other)
