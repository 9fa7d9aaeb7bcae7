"""Transactions: several documents and events, all or nothing, guarded by what was read."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

import pytest
from tests.coordination.counted import counted_home

import holdfast as hf
from holdfast.backends.memory import MemoryData
from holdfast.testing import FaultsAt, faulty_home, run_virtual
from holdfast.testing.faults import FailBefore, LoseAnswer


@dataclass
class Moved:
    source: str
    target: str
    cents: int


def account(app, name):
    return app.documents(int, name="accounts").at(name)


async def move(app, tx, source, target, cents):
    here, there = account(app, source), account(app, target)
    have, owed = await tx.get(here), await tx.find(there) or 0
    if have < cents:
        raise ValueError("not enough")
    tx.put(here, have - cents)
    tx.put(there, owed + cents)


async def balance(app, name):
    found = await account(app, name).find()
    return None if found is None else found.value


async def test_all_of_it_is_written_or_nothing(world):
    app = world.app()
    async with app:
        await account(app, "a").create(100)
        async with app.atomic() as tx:
            await move(app, tx, "a", "b", 30)
        assert (await balance(app, "a"), await balance(app, "b")) == (70, 30)
        with pytest.raises(ValueError, match="not enough"):
            async with app.atomic() as tx:
                await move(app, tx, "a", "b", 10)
                await move(app, tx, "a", "b", 100)
        assert (await balance(app, "a"), await balance(app, "b")) == (70, 30)


async def test_a_transaction_sees_its_own_changes(world):
    app = world.app()
    async with app:
        a, b = account(app, "a"), account(app, "b")
        async with app.atomic() as tx:
            assert await tx.find(a) is None
            tx.put(a, 1)
            assert await tx.get(a) == 1
            tx.put(a, 2)
            assert await tx.find(b) is None
            tx.put(b, 3)
            tx.delete(b)
            assert await tx.find(b) is None
            with pytest.raises(hf.NotFound):
                await tx.get(b)
        assert (await a.get()).version == 1
        assert (await balance(app, "a"), await b.find()) == (2, None)


async def test_what_was_read_and_has_changed_is_a_conflict_and_nothing_is_written(world):
    app = world.app()
    async with app:
        a, b = account(app, "a"), account(app, "b")
        await a.create(1)
        await b.create(1)
        with pytest.raises(hf.Conflict, match="accounts 'a' has changed") as raised:
            async with app.atomic() as tx:
                tx.put(b, await tx.get(b) + await tx.get(a))  # only reads a
                await a.update(lambda n: n + 1)
        assert raised.value.there.value == 2
        assert (await b.get()).value == 1


async def test_that_something_was_missing_is_guarded_too(world):
    app = world.app()
    async with app:
        a, b = account(app, "a"), account(app, "b")
        with pytest.raises(hf.Conflict, match="'a' has changed"):
            async with app.atomic() as tx:
                if await tx.find(a) is None:
                    assert await tx.find(b) is None
                    tx.put(b, 1)
                await a.create(1)
        assert await b.find() is None


async def test_write_skew_is_refused(world):
    """Two doctors on call, each may leave if the other stays: both want to."""
    app = world.app()
    async with app:
        for name in "ab":
            await account(app, name).create(1)

        async def leave(me):
            async with app.atomic() as tx:
                if await tx.get(account(app, "a")) + await tx.get(account(app, "b")) == 2:
                    await asyncio.sleep(0.001)
                    tx.put(account(app, me), 0)

        ended = await asyncio.gather(leave("a"), leave("b"), return_exceptions=True)
        assert sorted(type(each).__name__ for each in ended) == ["Conflict", "NoneType"]
        assert await balance(app, "a") + await balance(app, "b") == 1


async def test_reads_of_two_documents_are_of_one_moment_or_refused(world):
    app = world.app()
    async with app:
        for name in "ab":
            await account(app, name).create(1)
        with pytest.raises(hf.Conflict):
            async with app.atomic() as tx:
                await tx.get(account(app, "a"))
                await account(app, "a").update(lambda n: n + 1)
                await tx.get(account(app, "b"))


async def test_a_deleted_document_and_one_that_has_expired_go_on_from_their_versions(world):
    app = world.app()
    async with app:
        a = account(app, "a")
        await a.create(1)
        async with app.atomic() as tx:
            await tx.get(a)
            tx.delete(a)
        assert await a.find() is None
        async with app.atomic() as tx:
            assert await tx.find(a) is None
            tx.put(a, 9)
        assert ((await a.get()).value, (await a.get()).version) == (9, 3)
        with pytest.raises(hf.Conflict):
            await a.put(5, version=1)


async def test_money_is_neither_made_nor_lost_however_many_move_it(world):
    async with world.app() as one, world.app() as other:
        for name in "abcd":
            await account(one, name).create(100)

        async def shuffle(app, seed):
            for n in range(8):
                source, target = "abcd"[(seed + n) % 4], "abcd"[(seed + 3 * n + 1) % 4]
                if source != target:
                    await app.atomically(lambda tx, s=source, t=target: move(app, tx, s, t, 5))

        await asyncio.gather(*(shuffle(app, seed) for seed, app in enumerate((one, other) * 3)))
        assert sum([await balance(one, name) for name in "abcd"]) == 400


async def test_atomically_answers_what_its_work_returned_and_passes_its_errors_on(world):
    app = world.app()
    async with app:
        await account(app, "a").create(1)

        async def work(tx):
            return await tx.get(account(app, "a"))

        async def broken(tx):
            tx.put(account(app, "a"), await tx.get(account(app, "a")) + 1)
            raise hf.Conflict("my own")

        assert await app.atomically(work) == 1
        with pytest.raises(hf.Conflict, match="my own"):
            await app.atomically(broken)
        assert await balance(app, "a") == 1


async def test_atomically_gives_up_after_many_conflicts(memory_world):
    app = memory_world.app()
    async with app:
        a = account(app, "a")
        await a.create(1)

        async def overtaken(tx):
            tx.put(a, await tx.get(a) + 1)
            await a.update(lambda n: n)

        with pytest.raises(hf.Conflict):
            await app.atomically(overtaken)
        assert app.telemetry.counts["conflicted"] == 25


# ── Bad input ───────────────────────────────────────────────────────────────────────────────────────────────────────


async def test_what_was_not_read_cannot_be_written(memory_world):
    app = memory_world.app()
    async with app:
        with pytest.raises(hf.InvalidInput, match="was not read in this transaction"):
            async with app.atomic() as tx:
                tx.put(account(app, "a"), 1)
        with pytest.raises(hf.InvalidInput, match="was not read in this transaction"):
            async with app.atomic() as tx:
                tx.delete(account(app, "a"))


async def test_a_transaction_that_has_ended_takes_nothing_more(memory_world):
    app = memory_world.app()
    async with app:
        async with app.atomic() as tx:
            await tx.find(account(app, "a"))
        for late in (
            lambda: tx.put(account(app, "a"), 1),
            lambda: tx.delete(account(app, "a")),
            lambda: tx.publish(Moved("a", "b", 1)),
        ):
            with pytest.raises(hf.InvalidState, match="has ended"):
                late()
        with pytest.raises(hf.InvalidState, match="has ended"):
            await tx.get(account(app, "a"))


async def test_a_hundred_items_are_the_most(world):
    app = world.app()
    async with app:
        documents = [account(app, str(n)) for n in range(101)]

        async def put_all(count):
            async with app.atomic() as tx:
                for each in documents[:count]:
                    await tx.find(each)
                    tx.put(each, 1)

        await put_all(100)
        with pytest.raises(hf.InvalidInput, match="at most 100"):
            await put_all(101)
        assert await balance(app, "100") is None


async def test_a_value_that_cannot_be_kept_is_told_where_it_is_put(memory_world):
    app = memory_world.app()
    async with app, app.atomic() as tx:
        await tx.find(account(app, "a"))
        with pytest.raises(hf.SerializationError):
            tx.put(account(app, "a"), "text")
        with pytest.raises(hf.InvalidInput):
            tx.publish(Moved("a", "b", 1), id="")
    assert memory_world.data.find("doc#accounts#a", "@") is None


# ── Events ──────────────────────────────────────────────────────────────────────────────────────────────────────────


async def test_events_leave_with_the_commit_or_not_at_all(world, eventually):
    app, seen = world.app(), []

    @app.consumer(Moved)
    async def note(event: Moved) -> None:
        seen.append(event.cents)

    async with app.worker():
        await account(app, "a").create(100)
        with pytest.raises(ValueError, match="not enough"):
            async with app.atomic() as tx:
                tx.publish(Moved("a", "b", 1000))
                await move(app, tx, "a", "b", 1000)
        async with app.atomic() as tx:
            await move(app, tx, "a", "b", 1)
            tx.publish(Moved("a", "b", 1))
            tx.publish(Moved("a", "b", 2), id="the-second")
        async with app.atomic() as tx:
            tx.publish(Moved("a", "b", 2), id="the-second")
            tx.publish(Moved("a", "b", 3))
        await eventually(lambda: len(seen) >= 3)
        await asyncio.sleep(0.05)
    assert sorted(seen) == [1, 2, 3]


# ── Lost answers ────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("fault", [LoseAnswer(), FailBefore()], ids=str)
def test_a_transaction_whose_answer_is_lost_happens_once(memory_world, fault):
    async def story():
        async def open_home():
            return faulty_home(await memory_world.home(), FaultsAt({2: fault}))

        app, runs = memory_world.app(home=open_home), []
        async with app:
            await account(app, "a").create(100)

            async def work(tx):
                runs.append(1)
                await move(app, tx, "a", "b", 30)

            await app.atomically(work)
            assert (await balance(app, "a"), await balance(app, "b"), len(runs)) == (70, 30, 1)

    run_virtual(story)


def test_a_transaction_is_recognised_although_others_have_written_since(memory_world):
    async def story():
        async def open_home():
            return faulty_home(await memory_world.home(), FaultsAt({2: LoseAnswer()}))

        app, other = memory_world.app(home=open_home), memory_world.app()
        async with app, other:
            await account(app, "a").create(100)
            ours = asyncio.create_task(app.atomically(lambda tx: move(app, tx, "a", "b", 30)))
            await asyncio.sleep(0.01)
            await other.atomically(lambda tx: move(other, tx, "b", "a", 10))
            await ours
            assert (await balance(app, "a"), await balance(app, "b")) == (80, 20)

    run_virtual(story)


def test_a_guard_that_fails_after_a_lost_answer_is_no_reason_to_run_again(memory_world):
    """The transaction was applied; then somebody changed what it had only read."""

    async def story():
        async def open_home():
            return faulty_home(await memory_world.home(), FaultsAt({3: LoseAnswer()}))

        app, other, runs = memory_world.app(home=open_home), memory_world.app(), []
        async with app, other:
            await account(app, "rate").create(2)
            await account(app, "a").create(100)

            async def work(tx):
                runs.append(1)
                tx.put(account(app, "a"), await tx.get(account(app, "a")) * await tx.get(account(app, "rate")))

            ours = asyncio.create_task(app.atomically(work))
            await asyncio.sleep(0.01)
            await account(other, "rate").update(lambda n: n + 1)
            await ours
            assert (await balance(app, "a"), len(runs)) == (200, 1)

    run_virtual(story)


@pytest.mark.parametrize("relayed", [False, True])
def test_of_a_transaction_that_only_publishes_nothing_is_claimed_once_it_cannot_be_told(memory_world, relayed):
    async def story():
        async def open_home():
            return faulty_home(await memory_world.home(), FaultsAt({3: LoseAnswer()}))

        app, other = memory_world.app(home=open_home), memory_world.app()
        async with app, other:
            await account(app, "a").create(1)

            async def work(tx):
                await tx.get(account(app, "a"))
                tx.publish(Moved("a", "b", 1))

            ours = asyncio.create_task(app.atomically(work))
            await asyncio.sleep(0.01)
            await account(other, "a").update(lambda n: n + 1)
            if not relayed:
                await ours
                return
            (entry,) = (await other.runtime().home.store.query("out#shop", prefix="o#")).items
            memory_world.data.remove(entry.partition, entry.sort)
            with pytest.raises(hf.StoreError, match="may or may not"):
                await ours

    run_virtual(story)


@pytest.mark.parametrize("vanished", [False, True])
def test_after_an_outage_a_change_by_another_is_a_conflict_as_ever(memory_world, vanished):
    """The first attempt was not applied; before the second, somebody changes what was only read."""

    async def story():
        async def open_home():
            return faulty_home(await memory_world.home(), FaultsAt({3: FailBefore()}))

        app, other = memory_world.app(home=open_home), memory_world.app()
        async with app, other:
            await account(app, "rate").create(2)
            await account(app, "a").create(100)

            async def change():
                async with app.atomic() as tx:
                    tx.put(account(app, "a"), await tx.get(account(app, "a")) * await tx.get(account(app, "rate")))

            ours = asyncio.create_task(change())
            await asyncio.sleep(0.01)
            if vanished:
                memory_world.data.remove("doc#accounts#rate", "@")
            else:
                await account(other, "rate").update(lambda n: n + 1)
            with pytest.raises(hf.Conflict, match="'rate' has changed"):
                await ours
            assert await balance(app, "a") == 100

    run_virtual(story)


# ── Counts ──────────────────────────────────────────────────────────────────────────────────────────────────────────


async def test_what_a_transaction_costs(memory_world):
    open_home, store = counted_home(MemoryData())
    app = memory_world.app(home=open_home)
    async with app:
        for name in "ab":
            await account(app, name).create(100)
        store.look()
        async with app.atomic() as tx:
            await move(app, tx, "a", "b", 1)
        assert store.look() == (2, 1, 2)
        await app.publish(Moved("a", "b", 1))
        store.look()
        async with app.atomic() as tx:
            await move(app, tx, "a", "b", 1)
            tx.publish(Moved("a", "b", 1))
            tx.publish(Moved("a", "b", 1))
        assert store.look() == (2, 1, 2 + 2 + 1)
        async with app.atomic() as tx:
            await tx.get(account(app, "a"))
        assert store.look() == (1, 0, 0)
        async with app.atomic() as tx:
            pass
        assert store.look() == (0, 0, 0)
