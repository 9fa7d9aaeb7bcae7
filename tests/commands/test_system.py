"""What is asked of a whole home: its queues, schedules, leases and processes, each in pages of few reads."""

from __future__ import annotations

import asyncio
from collections import Counter
from datetime import timedelta

import pytest
from msgspec.structs import replace
from tests.messaging.places import FAST, Placed, virtually
from tests.worlds import World

import holdfast as hf
from holdfast.backends.memory import open_memory_home
from holdfast.commands import Context, perform_for
from holdfast.commands.execution import Cancel
from holdfast.commands.overview import MOST_APPS, MOST_COUNTED, Counted, Overview
from holdfast.commands.system import ListAudit, ListLeases, ListOutbox, ListSchedules, ListWorkers
from holdfast.coordination.census import MOST_READS
from holdfast.items import ABSENT, EXISTS, Item, Put, Update
from holdfast.workflows.record import decode_record, encode_record

HOUR = 3_600
COUNTED = ("get", "query", "scan", "due", "write")


@pytest.fixture(params=["memory", "sqlite", "no census"])
def home_world(request, tmp_path):
    world = World("sqlite" if request.param == "sqlite" else "memory", tmp_path)
    world.has_census = request.param != "no census"
    return world


def app_of(world, name="shop", **options):
    if getattr(world, "has_census", True):
        return world.app(name, **options)

    async def open_without():
        return replace(open_memory_home(data=world.data), census=None)

    return world.app(name, home=open_without, **options)


def counting(app, monkeypatch):
    """How often the store is asked, by verb."""
    home, asked = app.runtime().home, Counter()

    def counted(thing, verb):
        method = getattr(thing, verb)

        async def call(*args, **options):
            asked[verb] += 1
            return await method(*args, **options)

        monkeypatch.setattr(thing, verb, call)

    for verb in COUNTED:
        counted(home.store, verb)
    for verb in ("count", "heads", "entries") if home.census is not None else ():
        counted(home.census, verb)
    return asked


async def ask(app, command):
    return await command.perform(Context(app))


async def all_pages(app, command, limit):
    found, after = [], None
    while True:
        page = await ask(app, replace(command, after=after, limit=limit))
        found += page.items
        assert after is None or page.after != after, "the pages go round in circles"
        if (after := page.after) is None:
            return found


def declare(app):
    @app.workflow
    async def wait() -> None:
        await hf.signal("go")

    @app.workflow
    async def fail(why: str) -> None:
        raise hf.Terminal(why)

    return wait, fail


# ── The overview ────────────────────────────────────────────────────────────────────────────────────────────────────


async def test_an_empty_home_has_nothing_to_tell(home_world):
    app = app_of(home_world)
    async with app:
        found = await ask(app, Overview())
    assert found.executions == ({} if home_world.has_census else None)
    assert found.failures == () and found.oldest_overdue is None
    assert found.overdue == found.parked == found.parked_messages == found.outbox == Counted(0)
    assert (found.blocked, found.halted) == ((0, 0) if home_world.has_census else (None, None))
    assert found.processes == 1


async def test_it_counts_what_there_is_and_names_the_newest_failures(home_world, reaches):
    app = app_of(home_world)
    wait, fail = declare(app)
    async with app.worker():
        for number in range(3):
            await reaches(await wait.start(id=f"w{number}"), "SUSPENDED")
        for number in range(7):
            await reaches(await fail.start(f"canary-{number}", id=f"f{number}"), "FAILED")
        await app.handle("wait", "w0").terminate()
        found = await ask(app, Overview())
    if not home_world.has_census:
        assert (found.executions, found.failed_lately, found.failures) == (None, None, ())
        return
    assert found.executions == {"SUSPENDED": 2, "FAILED": 7, "TERMINATED": 1}
    assert found.failed_lately == Counted(7)
    assert [each.id for each in found.failures] == ["f6", "f5", "f4", "f3", "f2"]
    assert found.failures[0].error == "Terminal: canary-6"


async def test_what_no_worker_takes_up_is_overdue_and_what_is_parked_is_not(home_world, reaches):
    app = app_of(home_world)
    wait, _ = declare(app)
    async with app.worker():
        for id in ("late", "parked", "rests"):
            await reaches(await wait.start(id=id), "SUSPENDED")
    async with app:
        runtime = app.runtime()
        store, now = runtime.home.store, runtime.clock.now_ms()
        await store.write(Update(partition="wf#wait#late", when=EXISTS, due_at=now - 90_000))
        record = replace(decode_record((await store.get("wf#wait#parked")).body), parked=True)
        body = encode_record(record)
        await store.write(Update(partition="wf#wait#parked", when=EXISTS, status="BLOCKED", due_at=0, body=body))
        found = await ask(app, Overview())
    assert found.overdue == Counted(1) and found.parked == Counted(1)
    assert found.oldest_overdue.what == "execution 'late' of workflow 'wait'"
    assert (found.at - found.oldest_overdue.since) >= timedelta(seconds=90)
    assert found.blocked == (0 if home_world.has_census else None)


async def test_it_takes_a_handful_of_reads_and_no_write_however_much_there_is(sqlite_world, monkeypatch):
    app = sqlite_world.app()
    async with app:
        store = app.runtime().home.store
        for start in range(0, 600, 100):
            puts = [
                Put(Item(f"wf#w#{n}", status="FAILED", body=b"{", due_at=1), ABSENT) for n in range(start, start + 100)
            ]
            notes = [Put(Item("parked", f"{n:04}", body=b"{}"), ABSENT) for n in range(2 * start, 2 * start + 200)]
            await store.write(*puts, *notes)
        for name in range(MOST_APPS + 3):
            await store.write(Put(Item(f"out#app{name}", status="SUSPENDED"), ABSENT))
        asked = counting(app, monkeypatch)
        found = await ask(app, Overview())
    assert found.executions == {"FAILED": 600}
    assert found.parked_messages == Counted(1_000, more=True)
    assert found.overdue == Counted(2 * MOST_COUNTED, more=True)
    assert asked["write"] == asked["get"] == 0
    assert (asked["scan"], asked["due"], asked["heads"], asked["count"]) == (1, 2, 1, 2)
    assert asked["query"] <= 1 + MOST_APPS


@virtually
async def test_events_that_wait_are_counted_by_queue(place):
    app = place.app()
    bus_is_down = asyncio.Event()

    @app.consumer(Placed, retry=FAST)
    async def bill(event: Placed) -> None:
        await bus_is_down.wait()

    async with app.worker():
        pass  # it subscribes the consumer
    async with app:
        for number in range(3):
            await app.publish(Placed(f"o{number}"))
        found = await ask(app, Overview())
        page = await ask(app, ListOutbox(queue="outbox"))
        none = await ask(app, ListOutbox(queue="bus"))
    assert found.outbox == Counted(3) and found.bus == Counted(0)
    assert [(each.app, each.queue, each.event, each.consumers) for each in page.items] == [
        ("shop", "outbox", "Placed", ("bill",))
    ] * 3
    assert none.items == ()


async def test_a_queue_that_does_not_exist_is_refused(memory_world):
    app = memory_world.app()
    async with app:
        with pytest.raises(hf.InvalidInput, match="there are: outbox, bus, refused"):
            await ask(app, ListOutbox(queue="inbox"))


# ── Schedules ───────────────────────────────────────────────────────────────────────────────────────────────────────


def schedule_two(place, name="shop"):
    app = place.app(name)

    @app.cron("0 * * * *")
    async def hourly() -> None: ...

    @app.cron("0 0 * * *", tz="Europe/Amsterdam", name="nightly", missed="skip")
    async def night() -> None: ...

    @app.consumer(Placed)
    async def bill(event: Placed) -> None: ...

    return app


@virtually
async def test_schedules_tell_of_their_ticks_and_of_those_they_missed(place):
    app = schedule_two(place)
    async with app.worker():
        await app.publish(Placed("o"))
        await asyncio.sleep(HOUR * 1.5)
    async with app:
        fresh = (await ask(app, ListSchedules())).items
        await asyncio.sleep(HOUR * 3)
        late = (await ask(app, ListSchedules())).items
    assert [(each.app, each.name, each.expression, each.tz, each.policy) for each in fresh] == [
        ("shop", "hourly", "0 * * * *", "UTC", "once"),
        ("shop", "nightly", "0 0 * * *", "Europe/Amsterdam", "skip"),
    ]
    assert fresh[0].next_at - fresh[0].last_at == timedelta(hours=1)
    assert fresh[1].next_at - fresh[1].last_at == timedelta(days=1)
    assert [each.missed for each in fresh] == [0, 0]
    assert late[0].missed == 3 and late[0].next_at == fresh[0].next_at


@virtually
async def test_schedules_are_of_one_app_or_of_all_in_pages(place):
    for name in ("annex", "shop"):
        async with schedule_two(place, name).worker():
            await asyncio.sleep(1)
    app = place.app("visitor")
    async with app:
        wanted = [(name, each) for name in ("annex", "shop") for each in ("hourly", "nightly")]
        for limit in (1, 3, 100):
            found = await all_pages(app, ListSchedules(), limit)
            assert [(each.app, each.name) for each in found] == wanted
        assert {each.app for each in await all_pages(app, ListSchedules("annex"), 1)} == {"annex"}


@virtually
async def test_a_tick_that_fails_says_why(place):
    app = place.app()

    @app.cron("0 * * * *")
    async def hourly() -> None:
        raise KeyError("sku-9")

    async with app.worker():
        await asyncio.sleep(HOUR + 0.5)
        (found,) = (await ask(app, ListSchedules())).items
    assert found.error == "KeyError: 'sku-9'"


# ── Leases ──────────────────────────────────────────────────────────────────────────────────────────────────────────


async def test_leases_say_who_holds_them_and_which_lapsed(home_world):
    app, other = app_of(home_world), app_of(home_world)
    async with app, other:
        async with other.lease("report"), other.semaphore("api", 2), app.semaphore("api", 2):
            found = await all_pages(app, ListLeases(), 100)
            owner = other.runtime().home.owner
            told = {(each.kind, each.name, each.permit): each for each in found}
            assert told["lease", "report", 0].owner == owner
            assert told["lease", "report", 0].status == "HELD" and told["lease", "report", 0].alive is True
            assert {permit for kind, _, permit in told if kind == "semaphore"} == {0, 1}
            assert {each.owner for each in found if each.kind == "semaphore"} == {owner, app.runtime().home.owner}
        free = await all_pages(app, ListLeases(status="FREE"), 100)
        assert len(free) == 3 and {each.owner for each in free} == {None}
        gone = Item("lease#gone", "p#0000", status="LEASE", owner="999-dead/1", lease_until=1, epoch=7)
        await app.runtime().home.store.write(Put(gone, ABSENT))
        (lapsed,) = await all_pages(app, ListLeases("lease", "LAPSED"), 100)
    assert (lapsed.name, lapsed.owner, lapsed.fence, lapsed.status) == ("gone", "999-dead", 7, "LAPSED")


async def test_pages_of_leases_are_short_where_few_fit_and_end(sqlite_world, monkeypatch):
    app = sqlite_world.app()
    async with app:
        store = app.runtime().home.store
        for number in range(60):
            kind = ("lease", "leader", "semaphore")[number % 3]
            owner = "me/1" if number >= 57 else None
            await store.write(Put(Item(f"{kind}#n{number:02}", "p#0000", status="LEASE", owner=owner, epoch=1), ABSENT))
        for limit in (1, 7, 1_000):
            assert len(await all_pages(app, ListLeases(), limit)) == 60
            assert len(await all_pages(app, ListLeases(status="LAPSED"), limit)) == 3
        asked = counting(app, monkeypatch)
        page = await ask(app, ListLeases(status="LAPSED", limit=1))
        assert page.after is not None and asked["entries"] <= MOST_READS
        for wrong in ("x", "lease", "nothing/1"):
            with pytest.raises(hf.InvalidInput):
                await ask(app, ListLeases(after=wrong))
        with pytest.raises(hf.InvalidInput, match="no kind of leases"):
            await ask(app, ListLeases("lock"))


# ── Processes ───────────────────────────────────────────────────────────────────────────────────────────────────────


async def test_processes_say_what_they_own(home_world, eventually):
    app, other = app_of(home_world), app_of(home_world)
    hangs = asyncio.Event()

    @app.step
    async def hang() -> None:
        await hangs.wait()

    @app.workflow
    async def busy() -> None:
        await hang()

    async with other, app.worker():
        handle = await busy.start(id="b")
        async with other.lease("report"):
            me, them = app.runtime().home.owner, other.runtime().home.owner

            async def found():
                told = {each.owner: each for each in await all_pages(app, ListWorkers(), 1)}
                return told if told[me].executions else None

            told = await eventually(found)
        hangs.set()
        await handle
    assert told.keys() == {me, them}
    assert (told[me].here, told[me].alive, told[me].executions) == (True, True, 1)
    assert told[me].examples == ("busy b",) and told[me].until is not None
    assert (told[them].here, told[them].leases, told[them].examples) == (False, 1, ("lease report",))


async def test_a_dead_process_that_owns_something_is_seen(memory_world):
    app = memory_world.app()
    async with app:
        left = Item("wf#w#1", status="RUNNING", owner="999-dead", lease_until=5, epoch=1, due_at=5)
        await app.runtime().home.store.write(Put(left, ABSENT))
        found = {each.owner: each for each in (await ask(app, ListWorkers())).items}
    assert (found["999-dead"].alive, found["999-dead"].executions) == (False, 1)


# ── The audit ───────────────────────────────────────────────────────────────────────────────────────────────────────


async def test_the_audit_is_listed_newest_first_in_pages(home_world):
    app = app_of(home_world)
    wait, _ = declare(app)
    async with app.worker():
        for number in range(9):
            await wait.start(id=f"w{number}")
            await perform_for(f"caller-{number % 2}", Cancel("wait", f"w{number}"), Context(app))
        for limit in (1, 4, 100):
            found = await all_pages(app, ListAudit(), limit)
            assert sorted((each.who, each.what) for each in found) == sorted(
                (f"caller-{n % 2}", f"wait w{n}") for n in range(9)
            )
            assert [each.at for each in found] == sorted((each.at for each in found), reverse=True)
            assert {(each.action, each.outcome) for each in found} == {("cancel", "done")}
        with pytest.raises(hf.InvalidInput, match="is not a cursor"):
            await ask(app, ListAudit(after="1"))
