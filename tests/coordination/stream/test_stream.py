"""One stream: appends at a version, repeats, reading, state, older forms, bad input, what it costs."""

from __future__ import annotations

import asyncio
import random
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import pytest
from tests.coordination.counted import counted_home
from tests.coordination.stream.accounts import (
    BALANCE,
    AccountEvent,
    Deposited,
    Withdrawn,
    accounts,
    all_of,
    cents_of,
    withdraw,
)

import holdfast as hf
from holdfast.coordination.stream import pages as paged
from holdfast.coordination.stream import streams as module
from holdfast.testing import FaultsAt, faulty_home, run_virtual
from holdfast.testing.faults import Delay, FailBefore, LoseAnswer

unordered = pytest.mark.not_on_dynamodb("its writers do not see each other, so it has no order of all events")


@pytest.fixture(params=[pytest.param(False, id="apart"), pytest.param(True, id="ordered", marks=unordered)])
def ordered(request):
    return request.param


# ── Appending ───────────────────────────────────────────────────────────────────────────────────────────────────────


async def test_events_are_appended_and_read_as_they_were(world, ordered):
    app = world.app()
    async with app:
        account = accounts(app, ordered=ordered).at("a")
        assert (await account.version(), await all_of(account.read())) == (0, [])
        first, second = await account.append(Deposited(100), Withdrawn(30, by="ada"), version=0)
        (third,) = await account.append(Deposited(5), version=2)
        assert [each.event for each in (first, second, third)] == [Deposited(100), Withdrawn(30, "ada"), Deposited(5)]
        assert [each.version for each in (first, second, third)] == [1, 2, 3]
        assert [each.position for each in (first, second, third)] == ([1, 2, 3] if ordered else [0, 0, 0])
        assert len({each.id for each in (first, second, third)}) == 3
        assert await all_of(account.read()) == [first, second, third]
        assert await account.version() == 3
        assert first.key == ("a",)


async def test_of_two_writers_at_one_version_one_wins(world, ordered):
    async with world.app() as one, world.app() as other:
        streams = [accounts(app, ordered=ordered) for app in (one, other)]
        appends = [streams[n % 2].at("a").append(Deposited(n), version=0) for n in range(10)]
        ended = await asyncio.gather(*appends, return_exceptions=True)
        conflicts = [each for each in ended if isinstance(each, hf.Conflict)]
        assert len(conflicts) == 9
        assert {each.there for each in conflicts} == {1}
        assert await streams[0].at("a").version() == 1


async def test_all_events_of_an_append_are_there_or_none(world, ordered):
    app = world.app()
    async with app:
        streams = accounts(app, ordered=ordered)
        await streams.at("a").append(Deposited(1), Deposited(2), version=0)
        with pytest.raises(hf.Conflict, match="is at version 2, not at version 1"):
            await streams.at("a").append(Deposited(3), Deposited(4), version=1)
        assert await cents_of(streams.at("a").read()) == [1, 2]


async def test_a_version_that_the_stream_has_not_reached_leaves_no_gap(world, ordered):
    app = world.app()
    async with app:
        streams = accounts(app, ordered=ordered)
        await streams.at("a").append(Deposited(1))
        with pytest.raises(hf.Conflict, match="is at version 1, not at version 5") as raised:
            await streams.at("a").append(Deposited(2), version=5)
        assert raised.value.there == 1
        assert await streams.at("a").version() == 1


async def test_appends_at_the_end_all_land_in_a_row(world, ordered):
    async with world.app() as one, world.app() as other:
        streams = {id(app): accounts(app, ordered=ordered) for app in (one, other)}

        async def land(app):
            for n in range(5):
                await streams[id(app)].at("a").append(Deposited(n))

        await asyncio.gather(*(land(app) for app in (one, other, one, other)))
        versions = [each.version async for each in streams[id(one)].at("a").read()]
        assert versions == list(range(1, 21))


async def test_an_append_with_an_id_is_applied_once_however_often_it_is_sent(world, ordered):
    app = world.app()
    async with app:
        streams = accounts(app, ordered=ordered)
        first = await streams.at("a").append(Deposited(1), Deposited(2), version=0, id="request-1")
        await streams.at("a").append(Deposited(3), version=2)
        for version in (0, 3, None, 7):
            again = await streams.at("a").append(Deposited(1), Deposited(2), version=version, id="request-1")
            assert again == first
        with pytest.raises(hf.IdempotencyMismatch, match="request-1"):
            await streams.at("a").append(Deposited(9), id="request-1")
        assert await cents_of(streams.at("a").read()) == [1, 2, 3]
        # Another stream has ids of its own.
        await streams.at("b").append(Deposited(9), id="request-1")


async def test_a_stream_may_hold_any_one_type(world):
    app = world.app()
    async with app:
        names = app.streams(dict[str, int], name="counts").at("a")
        await names.append({"a": 1}, {})
        assert [each.event async for each in names.read()] == [{"a": 1}, {}]
        with pytest.raises(hf.SerializationError):
            await names.append(["a"])
        await app.stream(Deposited, "a").append(Deposited(1))
        assert await app.stream(Deposited, "a").version() == 1


def test_streams_and_collections_say_what_they_are(memory_world):
    app = memory_world.app()
    assert repr(app.streams(Deposited)) == "<Streams Deposited>"
    assert repr(app.stream(Deposited, "a", "b")) == "<Stream Deposited 'a/b'>"
    assert app.stream(Deposited, "a").streams is app.streams(Deposited)


# ── Reading ─────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("page", [1, 2, 3, 200])
async def test_any_part_is_read_in_any_direction_whatever_the_pages(world, page, monkeypatch):
    monkeypatch.setattr(module, "PAGE_EVENTS", page)
    monkeypatch.setattr(paged, "PAGE_EVENTS", page)
    app = world.app()
    async with app:
        account = accounts(app).at("a")
        for n in range(1, 8):
            await account.append(Deposited(n))
        fresh = accounts(app).at("a")
        assert await cents_of(fresh.read()) == [1, 2, 3, 4, 5, 6, 7]
        assert await cents_of(fresh.read(after=2, upto=5)) == [3, 4, 5]
        assert await cents_of(fresh.read(backwards=True)) == [7, 6, 5, 4, 3, 2, 1]
        assert await cents_of(fresh.read(after=2, upto=5, backwards=True)) == [5, 4, 3]
        assert await cents_of(fresh.read(backwards=True, limit=2)) == [7, 6]
        assert await cents_of(fresh.read(after=3, limit=2)) == [4, 5]
        assert await cents_of(fresh.read(after=3, upto=2)) == []
        assert await cents_of(fresh.read(after=3, upto=2, backwards=True)) == []
        assert await cents_of(fresh.read(after=9)) == []
        assert await cents_of(fresh.read(upto=99, backwards=True, limit=1)) == [7]
        assert await cents_of(fresh.read(limit=0)) == []


@pytest.mark.parametrize("length", [*range(12), 100])
async def test_the_end_is_found_wherever_it_is(memory_world, length):
    app = memory_world.app()
    async with app:
        writer = accounts(app).at("a")
        for _ in range(length):
            await writer.append(Deposited(1))
        fresh = accounts(app).at("a")
        assert await fresh.version() == length
        assert await fresh.version() == length


async def test_streams_and_keys_do_not_touch_each_other(world):
    app = world.app()
    async with app:
        streams = accounts(app)
        await streams.at("a").append(Deposited(1))
        await streams.at("a", "b").append(Deposited(2))
        await app.streams(Deposited).at("a").append(Deposited(3))
        assert await cents_of(streams.at("a").read()) == [1]
        assert await cents_of(streams.at("a", "b").read()) == [2]


async def test_a_follower_gets_what_is_there_and_what_comes(world, ordered):
    async with world.app() as one, world.app() as other:
        for app in (one, other):
            accounts(app, ordered=ordered)
        account = one.streams(AccountEvent, name="accounts").at("a")
        await account.append(Deposited(1), Deposited(2))
        seen = []

        async def follow(source):
            async for each in source:
                seen.append(each.event.cents)
                if each.event.cents == 9:
                    return

        elsewhere = other.streams(AccountEvent, name="accounts")
        source = elsewhere.follow(after=1) if ordered else elsewhere.at("a").follow(after=1)
        following = asyncio.create_task(follow(source))
        await asyncio.sleep(0.01)
        await account.append(Deposited(5))
        await account.append(Deposited(9))
        await following
        assert seen == [2, 5, 9]


# ── State ───────────────────────────────────────────────────────────────────────────────────────────────────────────


async def test_the_state_at_any_version_and_time(world):
    clock = SetClock()
    app = world.app(clock=clock)
    async with app:
        account = accounts(app).at("a")
        times = []
        for cents in (1, 10, 100):
            await account.append(Deposited(cents))
            times.append(datetime.fromtimestamp(clock.now / 1000, UTC))
            clock.now += 1_000
        assert await account.state(BALANCE) == 111
        assert [await account.state(BALANCE, version=n) for n in range(5)] == [0, 1, 11, 111, 111]
        assert [await account.state(BALANCE, at=each) for each in times] == [1, 11, 111]
        assert await account.state(BALANCE, at=times[0] - timedelta(milliseconds=1)) == 0
        with pytest.raises(hf.InvalidInput, match="time zone"):
            await account.state(BALANCE, at=datetime(2026, 1, 1))  # noqa: DTZ001 - that is the mistake


async def test_a_time_is_cut_at_the_first_event_after_it_although_clocks_disagree(memory_world):
    clock = SetClock()
    app = memory_world.app(clock=clock)
    async with app:
        account = accounts(app).at("a")
        for cents, ahead in ((1, 0), (10, 60_000), (100, -60_000)):
            clock.now += ahead
            await account.append(Deposited(cents))
        assert await account.state(BALANCE, at=datetime.fromtimestamp(1_000, UTC)) == 1


class SetClock:
    def __init__(self):
        self.now = 1_000_000

    def now_ms(self):
        return self.now


async def test_decisions_of_many_at_once_are_each_made_on_the_state_as_it_is(world, ordered):
    async with world.app() as one, world.app() as other:
        streams = [accounts(app, ordered=ordered) for app in (one, other)]
        await streams[0].at("a").append(Deposited(50))
        attempts = [streams[n % 2].at("a").decide(BALANCE, withdraw(10)) for n in range(12)]
        ended = await asyncio.gather(*attempts, return_exceptions=True)
        assert [type(each) for each in ended].count(ValueError) == 7
        assert await streams[0].at("a").state(BALANCE) == 0


async def test_a_decision_with_an_id_is_made_once(world, ordered):
    app = world.app()
    async with app:
        account = accounts(app, ordered=ordered).at("a")
        await account.append(Deposited(10))
        first = await account.decide(BALANCE, withdraw(10), id="w-1")
        assert await account.decide(BALANCE, withdraw(10), id="w-1") == first
        with pytest.raises(ValueError, match="not enough"):
            await account.decide(BALANCE, withdraw(10), id="w-2")
        assert await account.decide(BALANCE, lambda _balance: []) == ()
        assert await account.version() == 2


# ── Older forms ─────────────────────────────────────────────────────────────────────────────────────────────────────


def old_event():
    @dataclass
    class Deposited:
        euros: int

    return Deposited


async def test_upcasters_bring_older_events_up_to_date(world):
    old = old_event()
    before, after = world.app(), world.app()
    async with before, after:
        await before.streams(old | Withdrawn, name="accounts").at("a").append(old(3), Withdrawn(1))
        upcasters = {Deposited: {1: lambda data: {"cents": data["euros"] * 100}}}
        account = accounts(after, upcasters=upcasters).at("a")
        await account.append(Deposited(5))
        assert [each.event async for each in account.read()] == [Deposited(300), Withdrawn(1), Deposited(5)]
        with pytest.raises(hf.SerializationError, match="newer code"):
            await all_of(before.streams(old | Withdrawn).at("a").read())


async def test_an_event_of_a_class_that_is_not_known_any_more_is_named(world):
    app, other = world.app(), world.app()
    async with app, other:
        await accounts(app).at("a").append(Withdrawn(1))
        with pytest.raises(hf.SerializationError, match="event 1 of stream accounts 'a' is a 'Withdrawn'"):
            await all_of(other.streams(Deposited, name="accounts").at("a").read())


# ── Lost answers ────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("fault", [LoseAnswer(), FailBefore(), Delay(before_seconds=0.5)], ids=str)
@pytest.mark.parametrize("number", [1, 2, 3, 4])
def test_a_lost_answer_is_recognised_as_one_s_own(memory_world, ordered, fault, number):
    async def story():
        async def open_home():
            return faulty_home(await memory_world.home(), FaultsAt({number: fault}))

        app = memory_world.app(home=open_home)
        async with app:
            account = accounts(app, ordered=ordered).at("a")
            found = [
                *await account.append(Deposited(1), Deposited(2), version=0),
                *await account.append(Deposited(3)),
                *await account.append(Deposited(4), version=3, id="four"),
                *await account.decide(BALANCE, withdraw(10)),
            ]
            assert [each.version for each in found] == [1, 2, 3, 4, 5]
            assert await all_of(account.read()) == found

    run_virtual(story)


def test_one_s_own_append_is_known_behind_those_of_others(memory_world, ordered):
    async def story():
        async def open_home():
            return faulty_home(await memory_world.home(), FaultsAt({1: LoseAnswer()}))

        app, other = memory_world.app(home=open_home), memory_world.app()
        async with app, other:
            ours = asyncio.create_task(accounts(app, ordered=ordered).at("a").append(Deposited(1)))
            await asyncio.sleep(0.01)
            await accounts(other, ordered=ordered).at("a").append(Deposited(2))
            assert [each.version for each in await ours] == [1]
            assert await cents_of(app.streams(AccountEvent).at("a").read()) == [1, 2]

    run_virtual(story)


# ── Bad input ───────────────────────────────────────────────────────────────────────────────────────────────────────


async def test_what_is_wrong_is_told_before_anything_is_written(memory_world):
    open_home, store = counted_home()
    app = memory_world.app(home=open_home, limit_bytes=100)
    async with app:
        account = accounts(app).at("a")
        for version in (-1, "1", True, 1.0):
            with pytest.raises(hf.InvalidInput, match="version"):
                await account.append(Deposited(1), version=version)
        for events in ((), tuple(Deposited(1) for _ in range(49))):
            with pytest.raises(hf.InvalidInput, match="1 to 48 events"):
                await account.append(*events)
        with pytest.raises(hf.InvalidInput, match="not an event of this stream, which holds Deposited, Withdrawn"):
            await account.append(Deposited(1), 5)
        with pytest.raises(hf.SerializationError):
            await account.append(Deposited("x"))
        with pytest.raises(hf.PayloadTooLarge):
            await account.append(Withdrawn(1, "x" * 100))
        for id in ("", "a#b", 7):
            with pytest.raises(hf.InvalidInput):
                await account.append(Deposited(1), id=id)
            with pytest.raises(hf.InvalidInput):
                await account.decide(BALANCE, withdraw(0), id=id)
        for options in ({"after": -1}, {"upto": "2"}, {"limit": -1}):
            with pytest.raises(hf.InvalidInput):
                await all_of(account.read(**options))
        for read in (accounts(app).position, lambda: all_of(accounts(app).read())):
            with pytest.raises(hf.ConfigurationError, match="ordered=True"):
                await read()
        assert store.look()[1:] == (0, 0)


def test_declaring_streams_of_what_cannot_be_told_apart_is_refused(memory_world):
    app = memory_world.app()
    with pytest.raises(hf.ConfigurationError, match="name="):
        app.streams(AccountEvent)
    with pytest.raises(hf.ConfigurationError, match="different names"):
        app.streams(Deposited | dict[str, int], name="mixed")
    with pytest.raises(hf.ConfigurationError, match="two classes"):
        app.streams(Deposited | old_event(), name="twice")
    with pytest.raises(hf.ConfigurationError, match="not events"):
        app.streams(Deposited, upcasters={Withdrawn: {1: dict}})
    with pytest.raises(hf.ConfigurationError, match="without a gap"):
        app.streams(Deposited, upcasters={Deposited: {2: dict}})
    with pytest.raises(hf.ConfigurationError, match="snapshot_every"):
        hf.Fold(int, lambda n, _event: n, snapshot_every=-1)
    with pytest.raises(hf.SerializationError):
        hf.Fold(asyncio.Lock, lambda n, _event: n, snapshot_every=1)


async def test_a_home_without_one_order_says_so(memory_world):
    from msgspec.structs import replace

    async def open_home():
        return replace(await memory_world.home(), sequencer=None)

    app = memory_world.app(home=open_home)
    async with app:
        streams = accounts(app, ordered=True)
        with pytest.raises(hf.ConfigurationError, match="no order of all events"):
            await streams.at("a").append(Deposited(1))
        with pytest.raises(hf.ConfigurationError, match="no order of all events"):
            await streams.position()
        apart = app.streams(Deposited).at("a")  # each stream has its own order there
        await apart.append(Deposited(1), version=0)
        assert await cents_of(apart.read()) == [1]


# ── Counts ──────────────────────────────────────────────────────────────────────────────────────────────────────────


async def test_what_each_operation_costs(memory_world):
    open_home, store = counted_home()
    app = memory_world.app(home=open_home)
    async with app:
        account = accounts(app).at("a")
        await account.append(Deposited(1), version=0)
        assert store.look() == (0, 1, 1)
        await account.append(Deposited(2), Deposited(3), version=1)
        assert store.look() == (0, 1, 2)
        await account.append(Deposited(4))  # looks whether there is more
        assert store.look() == (1, 1, 1)
        await account.append(Deposited(5), version=4, id="five")
        assert store.look() == (0, 1, 2)
        await accounts(app).at("a").append(Deposited(6), version=5)  # a handle that has not seen version 5
        assert store.look() == (0, 1, 2)
        await all_of(account.read())
        assert store.look() == (1, 0, 0)
        await account.decide(BALANCE, withdraw(1))
        assert store.look() == (1, 1, 1)
        await account.version()
        assert store.look() == (1, 0, 0)


async def test_appends_share_commits_on_sqlite(sqlite_world, ordered):
    app = sqlite_world.app()
    async with app:
        streams = accounts(app, ordered=ordered)
        await streams.at("warm").append(Deposited(1))
        store = app.runtime().home.transactions
        before = store.commits
        await streams.at("a").append(Deposited(1), version=0)
        assert store.commits - before == 1
        before = store.commits
        await asyncio.gather(*(streams.at(str(n)).append(Deposited(1), version=0) for n in range(64)))
        assert store.commits - before <= 2


async def test_an_append_is_not_taken_for_another_whose_events_have_ids_like_its_own(world, ordered):
    app = world.app()
    async with app:
        account = accounts(app, ordered=ordered).at("a")
        await account.append(Deposited(1), Deposited(2), id="r")  # its events are called r/1 and r/2
        with pytest.raises(hf.Conflict):
            await account.append(Deposited(7), version=0, id="r/1")
        await account.append(Deposited(7), id="r/1")
        assert await cents_of(account.read()) == [1, 2, 7]


async def test_a_stream_that_was_used_on_another_home_leaves_no_gap_on_this_one():
    app = hf.App("shop", home="memory://")
    account = accounts(app).at("a")
    for _ in range(2):  # a memory home is gone when it is closed
        async with app:
            await account.append(Deposited(1), Deposited(2))
            await account.append(Deposited(3))
            assert [each.version async for each in account.read()] == [1, 2, 3]


async def test_a_decision_with_an_id_that_two_make_at_once_is_made_once(world, ordered):
    async with world.app() as one, world.app() as other:
        streams = [accounts(app, ordered=ordered) for app in (one, other)]
        await streams[0].at("a").append(Deposited(10))
        counts = iter(range(100))

        def decide(cents):
            if cents < 10:
                raise ValueError("not enough")
            return [Withdrawn(10, by=f"attempt {next(counts)}")]  # its events say which attempt they are of

        asked = [streams[n % 2].at("a").decide(BALANCE, decide, id="order-1") for n in range(6)]
        first, *others = await asyncio.gather(*asked)
        assert others == [first] * 5
        assert await streams[0].at("a").state(BALANCE) == 0


async def test_large_events_are_stored_aside_in_either_kind_of_stream(world, ordered):
    app = world.app()
    async with app:
        texts = app.streams(str, name="texts", ordered=ordered).at("a")
        long = random.Random(1).randbytes(100_000).hex()  # there, what packs well stays in its item
        both = await texts.append(long, "short", long[1:], id="r")
        assert await all_of(texts.read()) == list(both)
        assert await texts.append(long, "short", long[1:], id="r") == both
        with pytest.raises(hf.Conflict, match="is at version 3"):
            await texts.append(long, version=0)
        if ordered:
            assert await all_of(texts.streams.read()) == list(both)
        behind = app.runtime().home.store._store
        kept = [len((await behind.get("stream#texts#a", f"e#{n:012d}")).body) for n in (1, 2, 3)]
        assert max(kept) < 200


def test_large_events_of_an_order_are_stored_aside_whatever_is_lost(memory_world):
    async def story(lost):
        async def open_faulty():
            return faulty_home(await memory_world.home(), FaultsAt({lost: LoseAnswer(), lost + 1: FailBefore()}))

        app = memory_world.app(home=open_faulty)
        async with app:
            texts = app.streams(str, name="texts", ordered=True).at(f"after {lost}")
            await texts.append("x" * 200_000)
            await texts.append("y" * 200_000)
            assert [each.event[0] async for each in texts.read()] == ["x", "y"]

    for lost in range(1, 8):
        run_virtual(lambda lost=lost: story(lost))
