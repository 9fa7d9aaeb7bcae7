"""One document: versions, conflicts, expiry, deletion, older forms, bad input."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, replace

import msgspec
import pytest
from tests.coordination.counted import counted_home

import holdfast as hf
from holdfast.coordination.document.record import REMNANT_MS, WRITERS_NAMED
from holdfast.testing import FaultsAt, VirtualClock, faulty_home, run_virtual
from holdfast.testing.faults import Delay, FailBefore, LoseAnswer


@dataclass
class Order:
    id: str
    status: str = "new"
    items: dict[str, int] | None = None


def paid(order: Order) -> Order:
    return replace(order, status="paid")


# ── Versions ────────────────────────────────────────────────────────────────────────────────────────────────────────


async def test_a_document_is_created_read_written_back_and_deleted(world):
    app = world.app()
    async with app:
        order = app.document(Order, "o-1")
        assert await order.find() is None
        with pytest.raises(hf.NotFound, match="Order 'o-1'"):
            await order.get()
        made = await order.create(Order("o-1"))
        assert (made.value, made.version, made.key) == (Order("o-1"), 1, ("o-1",))
        assert await order.get() == made
        put = await order.put(Order("o-1", "paid"), version=made.version)
        assert (await order.get(), put.version) == (put, 2)
        assert await order.delete()
        assert not await order.delete()
        assert await order.find() is None


async def test_a_document_is_the_same_in_another_process(world):
    async with world.app() as one, world.app() as other:
        await one.document(Order, "o-1").create(Order("o-1"))
        assert (await other.document(Order, "o-1").get()).value == Order("o-1")


async def test_a_put_at_another_version_conflicts_and_says_what_is_there(world):
    app = world.app()
    async with app:
        order = app.document(Order, "o-1")
        first = await order.create(Order("o-1"))
        second = await order.put(Order("o-1", "paid"), version=1)
        with pytest.raises(hf.Conflict, match="is at version 2, not at version 1") as raised:
            await order.put(Order("o-1", "lost"), version=first.version)
        assert raised.value.there == second
        assert raised.value.retryable
        with pytest.raises(hf.Conflict, match="exists already") as raised:
            await order.create(Order("o-1"))
        assert raised.value.there == second


async def test_of_two_writers_at_one_version_one_wins(world):
    app = world.app()
    async with app:
        order = app.document(Order, "o-1")
        await order.create(Order("o-1"))
        puts = [order.put(Order("o-1", str(n)), version=1) for n in range(10)]
        ended = await asyncio.gather(*puts, return_exceptions=True)
        won = [each for each in ended if isinstance(each, hf.Versioned)]
        assert len(won) == 1
        assert [type(each) for each in ended].count(hf.Conflict) == 9
        assert await order.get() == won[0]


async def test_updates_from_many_at_once_all_count(world):
    async with world.app() as one, world.app() as other:

        async def count(app):
            for _ in range(10):
                await app.document(int, "n").update(lambda n: n + 1, default=0)

        await asyncio.gather(*(count(app) for app in (one, other, one, other, one, other)))
        assert (await one.document(int, "n").get()).value == 60


async def test_update_of_what_is_not_there_needs_a_default_and_does_not_change_it(world):
    app = world.app()
    async with app:
        with pytest.raises(hf.NotFound):
            await app.document(int, "n").update(lambda n: n + 1)
        empty: dict[str, int] = {}

        def add(counts):
            counts["a"] = 1
            return counts

        counts = app.documents(dict[str, int], name="counts").at("n")
        assert (await counts.update(add, default=empty)).value == {"a": 1}
        assert empty == {}


async def test_a_change_that_raises_changes_nothing(world):
    app = world.app()
    async with app:
        order = app.document(Order, "o-1")
        made = await order.create(Order("o-1"))
        with pytest.raises(ZeroDivisionError):
            await order.update(lambda _order: 1 / 0)
        with pytest.raises(hf.SerializationError):
            await order.update(lambda _order: None)
        assert await order.get() == made


async def test_a_value_that_was_answered_is_nobody_else_s(memory_world):
    app = memory_world.app()
    async with app:
        order = app.document(Order, "o-1")
        given = Order("o-1", items={"a": 1})
        made = await order.create(given)
        given.items["b"] = 2
        made.value.items["c"] = 3
        assert (await order.get()).value.items == {"a": 1}


async def test_giving_up_after_many_conflicts_is_a_conflict(memory_world):
    app = memory_world.app()
    async with app:
        n = app.document(int, "n")
        await n.create(0)

        def overtaken(value):
            there = memory_world.data.find("doc#int#n", "@")
            memory_world.data.set(msgspec.structs.replace(there, revision=there.revision + 1))
            return value + 1

        with pytest.raises(hf.Conflict, match="25 times in a row"):
            await n.update(overtaken)
        assert app.telemetry.counts["conflicted"] == 25
        assert (await n.get()).value == 0


async def test_giving_up_a_deletion_after_many_conflicts_is_a_conflict(memory_world):
    app = memory_world.app()
    async with app:
        n = app.document(int, "n")
        await n.create(0)
        store = app.runtime().home.store
        write = store.write

        def overtaken(*writes):
            there = memory_world.data.find("doc#int#n", "@")
            memory_world.data.set(msgspec.structs.replace(there, revision=there.revision + 1))
            return write(*writes)

        store.write = overtaken
        with pytest.raises(hf.Conflict, match="is at version 26"):
            await n.delete()
        assert (await n.get()).value == 0


def test_documents_and_collections_say_what_they_are(memory_world):
    app = memory_world.app()
    assert repr(app.documents(Order)) == "<Documents Order>"
    assert repr(app.document(Order, "a", "b")) == "<Document Order 'a/b'>"
    assert app.document(Order, "a", "b").key == ("a", "b")


# ── Deletion ────────────────────────────────────────────────────────────────────────────────────────────────────────


async def test_whoever_read_a_document_before_it_was_deleted_cannot_bring_it_back(world):
    app = world.app()
    async with app:
        order = app.document(Order, "o-1")
        await order.create(Order("o-1"))
        assert await order.delete(version=1)
        with pytest.raises(hf.Conflict, match="does not exist") as raised:
            await order.put(Order("o-1", "zombie"), version=1)
        assert raised.value.there is None
        again = await order.create(Order("o-1", "anew"))
        assert again.version == 3
        with pytest.raises(hf.Conflict):
            await order.put(Order("o-1", "zombie"), version=1)
        with pytest.raises(hf.Conflict):
            await order.delete(version=1)
        assert await order.get() == again


async def test_update_with_a_default_creates_anew_what_was_deleted(world):
    app = world.app()
    async with app:
        n = app.document(int, "n")
        await n.create(5)
        await n.delete()
        assert (await n.update(lambda value: value + 1, default=0)).version == 3
        assert (await n.get()).value == 1


# ── Expiry ──────────────────────────────────────────────────────────────────────────────────────────────────────────


class SetClock:
    def __init__(self):
        self.now = 1_000_000

    def now_ms(self):
        return self.now


async def test_what_has_expired_is_not_there_at_once_and_its_version_is_not_used_again(world):
    clock = SetClock()
    app = world.app(clock=clock)
    async with app:
        code = app.document(str, "code")
        made = await code.create("1234", ttl="5m")
        assert made.expires_at == clock.now + 300_000
        clock.now = made.expires_at - 1
        assert await code.find() == made
        clock.now = made.expires_at
        assert await code.find() is None
        assert not await code.delete()
        with pytest.raises(hf.NotFound):
            await code.update(str.upper)
        again = await code.create("5678")
        assert (again.version, again.expires_at) == (2, None)


async def test_an_update_keeps_the_time_to_live_unless_it_gives_another(world):
    clock = SetClock()
    app = world.app(clock=clock)
    async with app:
        code = app.document(str, "code")
        made = await code.create("a", ttl="5m")
        clock.now += 1_000
        assert (await code.update(str.upper)).expires_at == made.expires_at
        assert (await code.update(str.lower, ttl="10m")).expires_at == clock.now + 600_000
        assert (await code.put("b", version=3)).expires_at is None


async def test_a_collection_s_time_to_live_begins_anew_with_each_write(world):
    clock = SetClock()
    app = world.app(clock=clock)
    carts = app.documents(dict[str, int], name="carts", ttl="1h")
    async with app:
        await carts.at("a").create({})
        clock.now += 1_800_000
        assert (await carts.at("a").update(lambda cart: cart | {"x": 1})).expires_at == clock.now + 3_600_000


@pytest.mark.not_on_dynamodb("it deletes what has expired by itself")
async def test_a_purge_takes_remnants_only_after_a_week_and_nothing_that_lives(world):
    clock = SetClock()
    app = world.app(clock=clock)
    async with app:
        await app.document(str, "gone").create("a")
        await app.document(str, "gone").delete()
        await app.document(str, "short").create("b", ttl="1s")
        await app.document(str, "short", "sub").create("c")
        purges = app.runtime().home.purges
        clock.now += REMNANT_MS - 1
        assert await purges.purge(clock.now, 100) == 0
        clock.now += 1_001
        assert await purges.purge(clock.now, 100) == 2
        assert (await app.document(str, "short", "sub").get()).value == "c"


async def test_clocks_that_disagree_never_let_a_write_pass_at_a_wrong_version(memory_world):
    early, late = SetClock(), SetClock()
    late.now += 3_600_000
    one, other = memory_world.app(clock=early), memory_world.app(clock=late)
    async with one, other:
        made = await one.document(str, "x").create("a", ttl="10m")
        assert await other.document(str, "x").find() is None  # by its clock it has expired
        again = await other.document(str, "x").create("b")
        assert again.version == 2
        with pytest.raises(hf.Conflict):
            await one.document(str, "x").put("c", version=made.version)


# ── Older forms ─────────────────────────────────────────────────────────────────────────────────────────────────────


async def test_upcasters_bring_older_forms_up_to_date_and_older_code_refuses_newer_ones(world):
    class Old(msgspec.Struct):
        name: str

    class New(msgspec.Struct):
        first: str
        last: str

    def split(old):
        first, _, last = old["name"].partition(" ")
        return {"first": first, "last": last}

    before, after = world.app(), world.app()
    people, now = before.documents(Old, name="people"), after.documents(New, name="people", upcasters={1: split})
    async with before, after:
        await people.at("a").create(Old("Ada Lovelace"))
        assert (await now.at("a").get()).value == New("Ada", "Lovelace")
        await now.at("a").update(lambda person: person)
        with pytest.raises(hf.SerializationError, match="newer code"):
            await people.at("a").get()


# ── Lost answers ────────────────────────────────────────────────────────────────────────────────────────────────────


def on_faults(memory_world, plan):
    async def open_home():
        return faulty_home(await memory_world.home(), plan)

    return memory_world.app(home=open_home)


@pytest.mark.parametrize("fault", [LoseAnswer(), FailBefore(), Delay(before_seconds=0.5)], ids=str)
@pytest.mark.parametrize("number", [1, 2, 3, 4])
def test_a_lost_answer_is_recognised_as_one_s_own(memory_world, fault, number):
    async def story():
        app = on_faults(memory_world, FaultsAt({number: fault}))
        async with app:
            n = app.document(int, "n")
            assert (await n.create(0)).version == 1
            assert (await n.update(lambda value: value + 1)).value == 1
            assert (await n.put(5, version=2)).version == 3
            assert await n.delete(version=3)
            assert (await n.create(7)).version == 5
            assert (await n.get()).value == 7

    run_virtual(story)


@pytest.mark.parametrize("others", [1, WRITERS_NAMED - 1])
def test_one_s_own_write_is_recognised_behind_those_of_others(memory_world, others):
    """The answer is lost, others write meanwhile: the update has happened, and happens once."""

    async def story():
        app, other = on_faults(memory_world, FaultsAt({2: LoseAnswer()})), memory_world.app()
        async with app, other:
            await app.document(int, "n").create(0)
            ours = asyncio.create_task(app.document(int, "n").update(lambda value: value + 100))
            await asyncio.sleep(0.01)
            for _ in range(others):
                await other.document(int, "n").update(lambda value: value + 1)
            await ours
            assert (await app.document(int, "n").get()).value == 100 + others

    run_virtual(story)


def test_behind_too_many_others_nothing_is_claimed(memory_world):
    async def story():
        app, other = on_faults(memory_world, FaultsAt({2: LoseAnswer()})), memory_world.app()
        async with app, other:
            await app.document(int, "n").create(0)
            ours = asyncio.create_task(app.document(int, "n").update(lambda value: value + 100))
            await asyncio.sleep(0.01)
            for _ in range(WRITERS_NAMED):
                await other.document(int, "n").update(lambda value: value + 1)
            with pytest.raises(hf.StoreError, match="may or may not"):
                await ours
            assert (await app.document(int, "n").get()).value == 100 + WRITERS_NAMED

    run_virtual(story)


# ── Keys and lists ──────────────────────────────────────────────────────────────────────────────────────────────────


async def test_documents_of_one_part_are_listed_by_the_others_a_page_at_a_time(world):
    app = world.app()
    async with app:
        orders = app.documents(str, name="orders")
        for day in ("2026-11-01", "2026-11-02", "2026-12-01"):
            for n in ("1", "2"):
                await orders.at("c7", day, n).create(f"{day} {n}")
        await orders.at("c7").create("the customer")
        await orders.at("c8", "2026-11-01", "1").create("of another")
        await orders.at("c7", "2026-11-02", "2").delete()

        async def keys(*parts, **options):
            return ["/".join(each.key) for each in (await orders.list(*parts, **options)).documents]

        assert len(await keys("c7")) == 5
        assert await keys("c7", "2026-11-01") == ["c7/2026-11-01/1", "c7/2026-11-01/2"]
        assert await keys("c7", prefix="2026-11") == ["c7/2026-11-01/1", "c7/2026-11-01/2", "c7/2026-11-02/1"]
        assert await keys("c7", "2026-11") == []
        page = await orders.list("c7", limit=2)
        rest = await orders.list("c7", limit=10, after=page.cursor)
        assert [each.value for each in (*page.documents, *rest.documents)] == [
            "2026-11-01 1",
            "2026-11-01 2",
            "2026-11-02 1",
            "2026-12-01 1",
            "2026-12-01 2",
        ]
        assert rest.cursor is None


@pytest.mark.parametrize(
    ("key", "told"),
    [
        ((), "has a key"),
        (("",), "empty"),
        (("a", ""), "empty"),
        (("a#b",), "without '#'"),
        (("a\n",), "printable"),
        (("\ud800",), "printable"),
        (("x" * 501,), "at most 500"),
        (("ü" * 451,), "900 bytes"),
        (("x" * 450, "x" * 449), "900 bytes"),
        ((7,), "got 7"),
        ((None,), "got None"),
    ],
)
def test_a_key_that_cannot_be_kept_is_refused(memory_world, key, told):
    with pytest.raises(hf.InvalidInput, match=told):
        memory_world.app().document(str, *key)


async def test_what_is_wrong_is_told_before_anything_is_written(memory_world):
    open_home, store = counted_home()
    app = memory_world.app(home=open_home, limit_bytes=100)
    async with app:
        text = app.document(str, "x")
        store.look()
        for wrong in (0, -1, "1", None, True, 1.0):
            with pytest.raises(hf.InvalidInput, match="version"):
                await text.put("a", version=wrong)
        for ttl in (0, "soon", -1, True):
            with pytest.raises(hf.InvalidInput):
                await text.create("a", ttl=ttl)
        with pytest.raises(hf.PayloadTooLarge, match="document str 'x'"):
            await text.create("a" * 100)
        with pytest.raises(hf.SerializationError):
            await text.create(5)
        with pytest.raises(hf.InvalidInput):
            await app.documents(str).list("a", limit=0)
        with pytest.raises(hf.InvalidInput):
            await app.documents(str).list("a", prefix="b#")
        assert store.look() == (0, 0, 0)


def test_declaring_documents_twice_or_without_a_name_is_refused(memory_world):
    app = memory_world.app()
    declared = app.documents(Order, ttl="1h")
    assert app.documents(Order) is declared
    assert app.document(Order, "a").documents is declared
    with pytest.raises(hf.DuplicateName, match="'Order'"):
        app.documents(Order, ttl="2h")
    with pytest.raises(hf.ConfigurationError, match="name="):
        app.documents(dict[str, int])
    app.documents(Order, name="archive", ttl="1h")
    with pytest.raises(hf.ConfigurationError, match="choose one"):
        app.document(Order, "a")
    with pytest.raises(hf.ConfigurationError, match="upcasters"):
        app.documents(int, upcasters={2: dict})
    with pytest.raises(hf.InvalidInput, match="name"):
        app.documents(int, name="a#b")
    with pytest.raises(hf.InvalidInput, match="ttl"):
        app.documents(str, ttl=0)


async def test_documents_need_an_open_app_and_no_workflow_body(memory_world):
    app = memory_world.app()
    with pytest.raises(hf.ConfigurationError, match="not open"):
        await app.document(str, "a").get()

    @app.workflow
    async def look() -> str:
        return (await app.document(str, "a").get()).value

    async with app.worker():
        with pytest.raises(hf.ExecutionFailed, match="a step"):
            await (await look.start(id="1"))


# ── Counts ──────────────────────────────────────────────────────────────────────────────────────────────────────────


async def test_what_each_operation_costs(memory_world):
    open_home, store = counted_home()
    app = memory_world.app(home=open_home)
    async with app:
        order = app.document(Order, "o-1")
        store.look()
        await order.create(Order("o-1"))
        assert store.look() == (0, 1, 1)
        await order.get()
        assert store.look() == (1, 0, 0)
        await order.put(Order("o-1"), version=1)
        assert store.look() == (0, 1, 1)
        await order.update(paid)
        assert store.look() == (1, 1, 1)
        await order.delete()
        assert store.look() == (1, 1, 1)
        await order.create(Order("o-1"))  # over the remnant: the refusal is the load
        assert store.look() == (0, 2, 2)


async def test_a_conflict_costs_one_write_more_and_no_read(memory_world):
    open_home, store = counted_home()
    app = memory_world.app(home=open_home)
    async with app:
        n = app.document(int, "n")
        await n.create(0)
        store.look()
        await asyncio.gather(n.update(lambda value: value + 1), n.update(lambda value: value + 1))
        reads, writes, _ = store.look()
        assert (reads, writes) == (2, 3)
        assert (await n.get()).value == 2


def test_virtual_time_passes_documents_by(memory_world):
    async def story():
        app = memory_world.app(clock=VirtualClock())
        async with app:
            await app.document(str, "x").create("a", ttl="30d")
            await asyncio.sleep(31 * 86_400)
            assert await app.document(str, "x").find() is None

    run_virtual(story)
