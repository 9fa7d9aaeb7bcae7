"""Snapshots: a state that saves reading all events, and that nothing rests on."""

from __future__ import annotations

import asyncio

import pytest
from msgspec.structs import replace
from tests.coordination.counted import counted_home
from tests.coordination.stream.accounts import BALANCE, SNAPPED, Deposited, accounts, change, withdraw

import holdfast as hf


def deposit(_balance):
    return [Deposited(1)]


async def snapshot_of(app, name="balance"):
    return await app.runtime().home.store.get("stream#accounts#a", f"s#{name}")


async def test_a_snapshot_is_kept_after_so_many_events_and_read_instead_of_them(world):
    app = world.app()
    async with app:
        account = accounts(app).at("a")
        for _ in range(2):
            await account.decide(SNAPPED, deposit)
        assert await snapshot_of(app) is None
        await account.decide(SNAPPED, deposit)
        assert (await snapshot_of(app)).revision == 3
        for _ in range(3):
            await account.decide(SNAPPED, deposit)
        assert (await snapshot_of(app)).revision == 6

        seen = []
        noting = hf.Fold(
            int, lambda cents, event: seen.append(event) or change(cents, event), snapshot_every=3, name="balance"
        )
        fresh = accounts(app).at("a")
        await account.append(Deposited(10))
        assert await fresh.state(noting) == 16
        assert seen == [Deposited(10)]


async def test_a_state_that_is_read_is_kept_so_that_the_next_reader_begins_there(world):
    app = world.app()
    async with app:
        stream = accounts(app).at("a")
        await stream.append(*(Deposited(1) for _ in range(4)))
        assert await stream.state(SNAPPED, version=4) == 4
        assert await snapshot_of(app) is None  # only of the latest state
        assert await stream.state(SNAPPED) == 4
        assert (await snapshot_of(app)).revision == 4
        await stream.append(Deposited(1), Deposited(1))
        assert await stream.state(SNAPPED) == 6
        assert (await snapshot_of(app)).revision == 4  # not so soon again
        await stream.append(Deposited(1))
        assert await stream.state(SNAPPED) == 7
        assert (await snapshot_of(app)).revision == 7


async def test_a_state_of_the_past_uses_no_snapshot_of_later(world):
    app = world.app()
    async with app:
        account = accounts(app).at("a")
        for _ in range(7):
            await account.decide(SNAPPED, deposit)
        assert [await account.state(SNAPPED, version=n) for n in range(8)] == list(range(8))


async def test_a_snapshot_of_another_version_of_the_fold_is_not_used(world):
    app = world.app()
    async with app:
        account = accounts(app).at("a")
        for _ in range(3):
            await account.decide(SNAPPED, deposit)
        doubled = hf.Fold(
            int, lambda cents, event: change(cents, event) + event.cents, snapshot_every=3, version=2, name="balance"
        )
        assert await account.state(doubled) == 6
        for _ in range(3):
            await account.decide(doubled, deposit)
        assert (await snapshot_of(app)).revision == 6
        assert await account.state(doubled) == 12


async def test_a_late_writer_does_not_put_an_old_snapshot_over_a_new_one(memory_world):
    app = memory_world.app()
    async with app:
        account = accounts(app).at("a")
        await account.append(*[Deposited(1) for _ in range(9)])
        await account.decide(SNAPPED, deposit)
        newer = await snapshot_of(app)
        store = app.runtime().home.store
        get = store.get

        async def as_it_was(partition, sort="@"):
            return None if sort == "s#balance" else await get(partition, sort)

        store.get = as_it_was
        await account.decide(SNAPPED, deposit)
        store.get = get
        assert await snapshot_of(app) == newer


async def test_a_snapshot_that_cannot_be_kept_is_not_missed(memory_world):
    app = memory_world.app(limit_bytes=40)
    async with app:
        account = accounts(app).at("a")
        lists = hf.Fold(list, lambda cents, event: [*cents, event.cents], snapshot_every=1, name="list")
        for _ in range(30):
            await account.decide(lists, deposit)
        assert await account.state(lists) == [1] * 30
        assert (await snapshot_of(app, "list")).revision < 30


async def test_a_damaged_snapshot_is_an_error_that_names_it(memory_world):
    app = memory_world.app()
    async with app:
        account = accounts(app).at("a")
        for _ in range(3):
            await account.decide(SNAPPED, deposit)
        memory_world.data.set(replace(await snapshot_of(app), body=b'{"version":1,"state":"x"}'))
        with pytest.raises(hf.SerializationError, match="snapshot balance of stream accounts 'a'"):
            await account.state(SNAPPED)


async def test_what_a_decision_costs_with_a_snapshot(memory_world):
    open_home, store = counted_home()
    app = memory_world.app(home=open_home)
    async with app:
        account = accounts(app).at("a")
        await account.append(*[Deposited(1) for _ in range(48)])
        await account.decide(SNAPPED, withdraw(1))
        store.look()
        await account.decide(SNAPPED, withdraw(1))
        assert store.look() == (2, 1, 1)  # the snapshot, the events since; the append
        await account.state(BALANCE)
        await asyncio.sleep(0)


def count(number, _event):
    return number + 1


async def test_folds_whose_states_are_of_one_class_have_snapshots_of_their_own(world):
    app = world.app()
    counted = hf.Fold(int, count, snapshot_every=3)
    async with app:
        account = accounts(app).at("a")
        await account.append(Deposited(100))
        for _ in range(6):
            await account.decide(SNAPPED, deposit)
        assert await account.state(counted) == 7
        await account.decide(counted, deposit)
        assert (await account.state(SNAPPED), await account.state(counted)) == (107, 8)


def test_a_function_without_a_name_needs_one_for_its_snapshots():
    def made(by):
        return lambda number, _event: number + by

    for nameless in (made(1), lambda number, _event: number):
        with pytest.raises(hf.ConfigurationError, match="name="):
            hf.Fold(int, nameless, snapshot_every=1)
        hf.Fold(int, nameless)
        hf.Fold(int, nameless, snapshot_every=1, name="by one")
