"""Deleting a stream: what readers, writers, folds and projections see of it, and what is left in the store."""

from __future__ import annotations

import random
from contextlib import aclosing

import pytest
from tests.coordination.counted import counted_home
from tests.coordination.stream.accounts import BALANCE, SNAPPED, Deposited, accounts, all_of, cents_of, withdraw

import holdfast as hf
from holdfast.coordination.stream import deleting, pages
from holdfast.coordination.stream.deleting import EMPTY
from holdfast.coordination.stream.fold import Folded, keep_read
from holdfast.paging import items
from holdfast.references import reference_in
from holdfast.testing import FaultsAt, faulty_home, run_virtual
from holdfast.testing.faults import LoseAnswer

unordered = pytest.mark.not_on_dynamodb("its writers do not see each other, so it has no order of all events")


@pytest.fixture(params=[pytest.param(False, id="apart"), pytest.param(True, id="ordered", marks=unordered)])
def ordered(request):
    return request.param


@pytest.fixture(params=[pytest.param(False, id="emptied"), pytest.param(True, id="died-before-emptying")])
def half(request, monkeypatch):
    """Also after a death right behind the first write: everybody must see the same."""
    if request.param:

        async def nothing(_stream):
            return None

        monkeypatch.setattr(deleting, "empty", nothing)
    return request.param


async def filled(app, count=5, **options):
    account = accounts(app, **options).at("a")
    await account.append(*(Deposited(n) for n in range(1, count + 1)), version=0, id="filled")
    return account


async def kept_of(app):
    return [each async for each in items(app.runtime().home.store, "stream#accounts#a")]


async def test_nothing_of_it_is_read_any_more_and_it_begins_anew(world, ordered, half):
    app = world.app()
    async with app:
        account = await filled(app, ordered=ordered)
        assert await account.state(SNAPPED) == 15
        await account.delete(version=5)
        for each in (account, accounts(app).at("a")):
            assert await all_of(each.read()) == await all_of(each.read(backwards=True)) == []
            assert await all_of(each.read(upto=3)) == []
            assert (await each.version(), await each.state(SNAPPED), await each.state(BALANCE)) == (6, 0, 0)
        with pytest.raises(hf.StreamDeleted):
            await account.state(SNAPPED, version=5)
        (seventh,) = await account.append(Deposited(70))
        assert seventh.version == 7
        assert await cents_of(account.read()) == await cents_of(account.read(backwards=True)) == [70]
        await account.decide(SNAPPED, withdraw(20))
        assert await account.state(SNAPPED) == await account.state(BALANCE) == 50
        if ordered:
            assert [(each.position, each.version) async for each in account.streams.read()] == [(7, 7), (8, 8)]
            assert [each.version async for each in account.streams.read(limit=1)] == [7]


async def test_only_empty_places_are_left_in_the_store(world, ordered):
    app = world.app()
    async with app:
        account = await filled(app, ordered=ordered)
        await account.state(SNAPPED)
        assert {each.sort[:2] for each in await kept_of(app)} == {"e#", "q#", "s#"}
        await account.delete()
        first, *rest, deletion = await kept_of(app)
        assert first.body == b'{"version":6,"emptied":6}'
        assert [(each.sort, each.body) for each in rest] == [(f"e#{n:012d}", EMPTY) for n in range(2, 6)]
        assert (deletion.sort, b'"!deleted"' in deletion.body) == (f"e#{6:012d}", True)


async def test_a_writer_that_was_stopped_is_refused_at_every_version(world, ordered, half):
    async with world.app() as app, world.app() as other:
        streams = accounts(app, ordered=ordered)
        stopped = [streams.at("a") for _ in range(6)]
        account = await filled(other, ordered=ordered)
        for version, each in enumerate(stopped):
            each.reached(version)
        await account.delete()
        for version, each in enumerate(stopped):
            with pytest.raises(hf.Conflict) as caught:
                await each.append(Deposited(1), version=version)
            assert caught.value.there == 6
        assert await all_of(account.read()) == []


async def test_its_request_ids_are_free_again(world, ordered):
    app = world.app()
    async with app:
        account = await filled(app, ordered=ordered)
        await account.delete()
        (again,) = await account.append(Deposited(9), id="filled")
        assert (again.version, await account.append(Deposited(9), id="filled")) == (7, (again,))


async def test_a_reader_in_its_middle_gets_events_and_then_hears_of_it(world, ordered, monkeypatch):
    monkeypatch.setattr(pages, "PAGE_EVENTS", 2)
    app = world.app()
    async with app:
        account = await filled(app, ordered=ordered)
        seen = []
        with pytest.raises(hf.StreamDeleted, match="was deleted up to version 6") as caught:
            async with aclosing(account.read()) as events:
                async for each in events:
                    seen.append(each.version)
                    if each.version == 2:
                        await account.delete()
                        await account.append(Deposited(7))
        assert (seen, caught.value.there) == ([1, 2], 6)
        assert await cents_of(account.read(after=caught.value.there)) == [7]
        with pytest.raises(hf.StreamDeleted):
            await all_of(account.read(after=2))
        with pytest.raises(hf.StreamDeleted):
            await all_of(account.read(after=2, backwards=True))
        with pytest.raises(hf.StreamDeleted):
            await anext(account.follow(after=5))


async def test_it_may_be_deleted_again_and_again(world, ordered):
    app = world.app()
    async with app:
        account = accounts(app, ordered=ordered).at("a")
        await account.delete()
        assert await account.version() == 0
        await account.append(Deposited(1))
        await account.delete(version=1)
        await account.delete(version=1)  # the same once more
        await account.delete()
        assert await account.version() == 2
        await account.append(Deposited(1), Deposited(2))
        with pytest.raises(hf.Conflict) as caught:
            await account.delete(version=3)
        assert caught.value.there == 4
        await account.delete(version=4)
        assert (await account.version(), (await account.deletion()).emptied) == (5, 5)
        assert [each.status for each in await kept_of(app)] == ["deleted"] * 5
        with pytest.raises(hf.InvalidInput):
            await account.delete(version=-1)


async def test_many_events_are_emptied_in_batches(world, monkeypatch):
    monkeypatch.setattr(deleting, "BATCH", 3)
    app = world.app()
    async with app:
        account = await filled(app, count=11)
        await account.delete()
        assert [each.status for each in await kept_of(app)] == ["deleted"] * 12


async def test_a_snapshot_that_comes_too_late_brings_nothing_back(world):
    app = world.app()
    async with app:
        account = await filled(app)
        await account.delete()
        await keep_read(account, SNAPPED, Folded(15, 5), app.runtime())
        assert not [each for each in await kept_of(app) if each.sort.startswith("s#")]


async def test_what_a_dead_deleter_has_left_is_done_by_the_next_writer_that_needs_it(world, monkeypatch):
    app = world.app()
    async with app:
        account = await filled(app)

        async def nothing(_stream):
            return None

        with monkeypatch.context() as patched:
            patched.setattr(deleting, "empty", nothing)
            await account.delete()
        assert [each.sort for each in await kept_of(app) if each.status == ""][-1] == "q#filled"
        (again,) = await account.append(Deposited(9), id="filled")
        assert (again.version, await account.append(Deposited(9), id="filled")) == (7, (again,))
        assert [each.status for each in await kept_of(app)] == ["deleted"] * 6 + ["", ""]


async def test_a_slow_process_that_empties_brings_nothing_back_that_was_deleted_since(world, monkeypatch):
    """It would say that all is emptied up to its own deletion, over the later one."""
    below, again = deleting._delete_below, []

    async def meanwhile(*args):
        if not again:
            again.append("deleted")
            await account.append(Deposited(70))
            await account.delete()
        return await below(*args)

    app = world.app()
    async with app:
        account = await filled(app)
        monkeypatch.setattr(deleting, "_delete_below", meanwhile)
        await account.delete()
        assert again
        deletion = await account.deletion()
        assert (deletion.version, deletion.emptied) == (8, 8)
        assert await all_of(account.read()) == []


@pytest.mark.parametrize("number", [2, 3, 4, 5])
def test_a_lost_answer_deletes_once(memory_world, ordered, number):
    async def story():
        async def open_home():
            return faulty_home(await memory_world.home(), FaultsAt({number: LoseAnswer()}))

        app = memory_world.app(home=open_home)
        async with app:
            account = await filled(app, ordered=ordered)
            await account.delete()
            assert await account.version() == 6
            assert (await account.deletion()).emptied == 6

    run_virtual(story)


async def test_a_projection_of_one_stream_goes_on_behind_it(world):
    app = world.app()
    async with app:
        account, sums = await filled(app), app.documents(int, name="sums")

        async def add(tx, recorded):
            tx.put(sums.at("a"), (await tx.find(sums.at("a")) or 0) + recorded.event.cents)

        projection = app.projection("sums", account, add, batch=2)
        assert (await projection.catch_up(), await projection.position()) == (5, 5)
        await account.append(Deposited(1000))
        await account.delete()
        assert await projection.catch_up() == 0
        await account.append(Deposited(10), Deposited(20), Deposited(30))
        assert (await projection.catch_up(), await projection.position()) == (3, 10)
        assert (await sums.at("a").get()).value == 15 + 60


@unordered
async def test_a_projection_of_all_streams_skips_what_is_gone(world):
    app = world.app()
    async with app:
        account = await filled(app, ordered=True)
        seen = []

        async def see(_tx, recorded):
            seen.append((recorded.key[0], recorded.version))

        projection = app.projection("seen", accounts(app), see, batch=2)
        await account.delete()
        await accounts(app).at("b").append(Deposited(1))
        assert (await projection.catch_up(), await projection.position(), seen) == (1, 7, [("b", 1)])


def test_what_a_deletion_costs(memory_world):
    async def story():
        open_home, store = counted_home()
        app = memory_world.app(home=open_home)
        async with app:
            account = await filled(app, count=40)
            store.look()
            await account.delete()
            reads, writes, items = store.look()
            # Version, deletion, first place, request ids, snapshots; deletion, places, request id, the end of it.
            assert (reads, writes, items) == (5, 4, 2 + 39 + 1 + 1)
            await account.delete()
            assert store.look()[1:] == (0, 0)

    run_virtual(story)


async def test_nothing_refers_to_large_events_any_more(world, ordered):
    app = world.app()
    async with app:
        texts = app.streams(str, name="texts", ordered=ordered).at("a")
        long = random.Random(1).randbytes(100_000).hex()
        await texts.append(long, long[1:], "short")
        behind = app.runtime().home.store._store
        places = (await behind.query("stream#texts#a", prefix="e#")).items
        assert [reference_in(each.body) is not None for each in places] == [True, True, False]
        await texts.delete()
        places = (await behind.query("stream#texts#a", prefix="e#")).items
        assert [reference_in(each.body) for each in places] == [None] * 4
