"""The record of an idempotency key: who may write it when, what it costs, and a model of it under faults."""

from __future__ import annotations

import asyncio
import tempfile
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, initialize, invariant, rule
from msgspec import Raw
from msgspec.structs import replace
from tests.sqlite_database import SqliteDatabase

import holdfast as hf
from holdfast.backends.memory import MemoryData, open_memory_home
from holdfast.coordination import idempotency
from holdfast.coordination.idempotency import SKEW_MS, Ended, Held, Terms, Ticket, place_of
from holdfast.failure import describe
from holdfast.opening import open_home
from holdfast.ports import Home
from holdfast.testing import MemoryDatabase, VirtualTimeLoop, faulty_home, run_virtual
from holdfast.testing.faults import FailBefore, FaultsAt, LoseAnswer

LEASE_MS = 30_000
WINDOW_MS = 3_600_000
TERMS = Terms(WINDOW_MS, 3)
PLACE = place_of("charge", '["17"]', "aa")
START_MS = 1_800_000_000_000


class Clock:
    def __init__(self, ms: int = START_MS) -> None:
        self.ms = ms

    def now_ms(self) -> int:
        return self.ms


@dataclass
class OpenApp:
    """An open app, as far as keys need one."""

    home: Home
    clock: Clock
    limit_bytes: int = 1_000_000
    counts: Counter[str] = field(default_factory=Counter)

    def emit(self, event: str, **_fields: Any) -> None:
        self.counts[event] += 1


class Process:
    """A process with a clock of its own, on shared data; with ``faults`` some of its writes go wrong."""

    def __init__(self, data: MemoryData, clock: Clock, faults: dict[int, Any] | None = None) -> None:
        self.clock = clock
        self.told: Counter[str] = Counter()
        self.plan = FaultsAt(faults)
        self.home = faulty_home(open_memory_home(data=data), self.plan)
        self.opened = OpenApp(self.home, clock, counts=self.told)

    async def acquire(self, place=PLACE, terms=TERMS, lease_ms=LEASE_MS, seen=None):
        return await idempotency.acquire(
            self.opened, place, terms, owner=idempotency.new_owner(self.opened), lease_ms=lease_ms, seen=seen
        )


async def dead(process: Process) -> None:
    await process.home.doorbell.close()


# ── Zombies and the dead ────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("settled", [False, True], ids=["while the heir works", "after the heir has finished"])
@pytest.mark.parametrize("move", ["complete", "fail", "release", "renew"])
async def test_whatever_a_zombie_writes_is_refused(move, settled):
    clock, data = Clock(), MemoryData()
    one, two = Process(data, clock), Process(data, clock)
    zombie = await one.acquire()
    clock.ms += LEASE_MS + SKEW_MS + 1
    heir = await two.acquire()
    assert (zombie.epoch, heir.epoch) == (1, 2) and two.told["claimed"] == 1
    if settled:
        await idempotency.complete(two.opened, heir, Raw(b'"heir"'))
    before = dict(data.partitions[PLACE.partition])
    moves = {
        "complete": lambda: idempotency.complete(one.opened, zombie, Raw(b'"zombie"')),
        "fail": lambda: idempotency.fail(one.opened, zombie, describe(OSError("late"))),
        "release": lambda: idempotency.release(one.opened, zombie),
    }
    if move == "renew":
        assert not await idempotency.renew(one.opened, zombie, LEASE_MS)
    else:
        with pytest.raises(hf.LeaseLost, match="taken over"):
            await moves[move]()
        assert one.told["fenced"] == 1
    assert data.partitions[PLACE.partition] == before
    if not settled:
        await idempotency.complete(two.opened, heir, Raw(b'"heir"'))
    found = await one.acquire()
    assert isinstance(found, Ended) and bytes(found.record.result) == b'"heir"'


async def test_a_lease_is_respected_until_the_skew_is_over():
    clock, data = Clock(), MemoryData()
    one, two = Process(data, clock), Process(data, clock)
    await one.acquire()
    clock.ms += LEASE_MS + SKEW_MS
    held = await two.acquire()
    assert held == Held(START_MS, START_MS + LEASE_MS)
    clock.ms += 1
    assert isinstance(await two.acquire(), Ticket)


async def test_the_key_of_a_process_that_is_known_to_be_gone_is_free_at_once():
    data = MemoryData()
    one, two = Process(data, Clock()), Process(data, Clock())
    await one.acquire()
    assert isinstance(await two.acquire(), Held)
    await dead(one)
    found = await two.acquire()
    assert isinstance(found, Ticket) and (found.record.started, found.record.finished) == (2, 0)


async def test_a_key_whose_owners_die_is_parked_until_somebody_clears_it():
    clock, data = Clock(), MemoryData()
    one = Process(data, clock)
    for _ in range(TERMS.max_crashes):
        assert isinstance(await one.acquire(), Ticket)
        clock.ms += LEASE_MS + SKEW_MS + 1
    for _ in range(2):
        with pytest.raises(hf.KeyParked, match="Find out what kills"):
            await one.acquire()
        clock.ms += 10 * WINDOW_MS  # however long it takes
    assert one.told["parked"] == 1
    there = await idempotency.look(one.opened, PLACE)
    assert there is not None and there.status == "PARKED" and there.expires_at is None
    with pytest.raises(hf.IdempotencyMismatch):
        await one.acquire(place_of("charge", '["17"]', "bb"))
    assert await idempotency.forget(one.opened, PLACE)
    found = await one.acquire()
    assert isinstance(found, Ticket) and found.record.started == 1


async def test_attempts_that_end_do_not_count_as_deaths():
    one = Process(MemoryData(), Clock())
    for number in range(1, 10):
        ticket = await one.acquire()
        assert (ticket.record.started, ticket.record.finished) == (number, number - 1)
        await idempotency.release(one.opened, ticket)


async def test_a_zombie_of_a_forgotten_record_cannot_write_into_the_new_one():
    clock, data = Clock(), MemoryData()
    one, two = Process(data, clock), Process(data, clock)
    zombie = await one.acquire()
    clock.ms += LEASE_MS + SKEW_MS + 1
    assert await idempotency.forget(two.opened, PLACE)
    with pytest.raises(hf.LeaseLost):
        await idempotency.complete(one.opened, zombie)
    again = await two.acquire()
    assert again.epoch == zombie.epoch  # the epoch has begun anew, the owner's name has not
    with pytest.raises(hf.LeaseLost):
        await idempotency.complete(one.opened, zombie)
    await idempotency.complete(two.opened, again)


async def test_what_was_seen_of_a_record_does_not_fit_the_one_made_after_it_was_purged():
    clock, data = Clock(), MemoryData()
    one, two = Process(data, clock), Process(data, clock)
    await idempotency.release(one.opened, await one.acquire())
    seen = await idempotency.look(one.opened, PLACE)
    assert await idempotency.forget(one.opened, PLACE)
    owner = await two.acquire()
    clock.ms += 1
    assert await idempotency.renew(two.opened, owner, LEASE_MS)  # as many changes as the one that was seen
    found = await one.acquire(seen=seen)
    assert isinstance(found, Held)
    await idempotency.complete(two.opened, owner)


async def test_a_lease_that_was_extended_since_it_was_seen_to_have_lapsed_is_not_taken():
    clock, data = Clock(), MemoryData()
    one, two = Process(data, clock), Process(data, clock)
    owner = await one.acquire()
    clock.ms += LEASE_MS + SKEW_MS + 1
    seen = await idempotency.look(two.opened, PLACE)
    assert await idempotency.renew(one.opened, owner, LEASE_MS)
    found = await two.acquire(seen=seen)
    assert isinstance(found, Held)
    await idempotency.complete(one.opened, owner)


# ── Lost answers ────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("fault", [LoseAnswer(), FailBefore()], ids=lambda f: type(f).__name__)
@pytest.mark.parametrize("number", [1, 2, 3, 4, 5])
def test_a_write_whose_answer_is_lost_recognises_itself(number, fault):
    async def story():
        clock = Clock()
        one = Process(MemoryData(), clock, {number: fault})
        ticket = await one.acquire()  # write 1
        await idempotency.release(one.opened, ticket)  # write 2
        ticket = await one.acquire()  # write 3 is refused, write 4 takes it
        await idempotency.complete(one.opened, ticket, Raw(b"1"))  # write 5
        return await one.acquire()

    found = run_virtual(story)
    assert isinstance(found, Ended) and (found.record.started, found.record.finished) == (2, 2)


@pytest.mark.parametrize("fault", [LoseAnswer(), FailBefore()], ids=lambda f: type(f).__name__)
def test_a_renewal_whose_answer_is_lost_is_no_reason_to_stop(fault):
    async def story():
        clock = Clock()
        one = Process(MemoryData(), clock, {2: fault})
        ticket = await one.acquire()
        clock.ms += LEASE_MS // 3
        answers = [await idempotency.renew(one.opened, ticket, LEASE_MS) for _ in range(2)]
        await idempotency.complete(one.opened, ticket, Raw(b"1"))
        return answers

    assert run_virtual(story) == [True, True]


# ── Counts ──────────────────────────────────────────────────────────────────────────────────────────────────────────


class Counting:
    """A store that counts what is asked of it."""

    def __init__(self, store: Any) -> None:
        self._store = store
        self.asked: Counter[str] = Counter()

    def __getattr__(self, name: str) -> Any:
        verb = getattr(self._store, name)
        if name not in {"write", "get", "query", "due", "scan"}:
            return verb

        def ask(*args: Any, **kwargs: Any) -> Any:
            self.asked[name] += 1
            return verb(*args, **kwargs)

        return ask

    def look(self) -> dict[str, int]:
        before, self.asked = dict(self.asked), Counter()
        return before


@pytest.fixture(params=["memory", "sqlite"])
def counted(request, tmp_path):
    """An app, and what it asks of its store."""
    found: list[Counting] = []

    async def open_counting():
        home = await open_home("memory://" if request.param == "memory" else f"sqlite:///{tmp_path}/home.db")
        found.append(Counting(home.store))
        return replace(home, store=found[0])

    def look() -> dict[str, int]:
        return found[0].look()  # there is none before the app is open

    return hf.App("shop", home=open_counting), look


async def test_what_each_call_asks_of_the_store(counted):
    app, asked = counted
    failing = [OSError("the line is dead")]

    @app.idempotent(key="id")
    async def charge(id: str) -> str:
        if id == "flaky" and failing:
            raise failing.pop()
        return id

    @app.idempotent(key="id", cache=1)
    async def cached(id: str) -> str:
        return id

    async with app:
        await charge("17")
        assert asked() == {"write": 2}, "a fresh call"
        await charge("17")
        assert asked() == {"write": 1}, "a repeat"
        with pytest.raises(OSError, match="dead"):
            await charge("flaky")
        assert asked() == {"write": 2}, "a failure"
        await charge("flaky")
        assert asked() == {"write": 3}, "another try"
        await cached("17")
        asked()
        assert await cached("17") == "17"
        assert asked() == {}, "a repeat that is in memory"
        with pytest.raises(hf.InvalidInput):
            await cached("")
        assert asked() == {}, "a call without a key"
        await cached("18")
        asked()
        await cached("17")  # two outcomes do not fit
        assert asked() == {"write": 1}
        await app.idempotency("cached").forget("17")
        asked()
        await cached("17")
        assert asked() == {"write": 2}, "the record is gone, and so is what was in memory"


async def test_what_is_in_memory_keeps_to_its_window_its_payload_and_its_home():
    clock = Clock()
    app = hf.App("shop", home="memory://", clock=clock)
    runs = []

    @app.idempotent(key="id", cache=10, window="1h")
    async def charge(id: str, cents: int) -> int:
        runs.append(cents)
        return len(runs)

    async with app:
        assert [await charge("17", 1), await charge("17", 1)] == [1, 1]
        with pytest.raises(hf.IdempotencyMismatch):
            await charge("17", 2)
        clock.ms += 3_600_001
        assert await charge("17", 1) == 2
    async with app:  # another, empty home
        assert await charge("17", 1) == 3


# ── Renewal ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_handler_that_takes_long_keeps_its_key():
    async def story():
        loop = asyncio.get_running_loop()
        clock = Clock()
        clock.now_ms = lambda: START_MS + int(loop.time() * 1000)
        data = MemoryData()

        async def open_home():
            return open_memory_home(data=data)

        apps = [hf.App("shop", home=open_home, clock=clock) for _ in range(2)]
        runs = []

        def declare(app):
            @app.idempotent(key="id", lease="30s", wait="2h")
            async def charge(id: str) -> int:
                runs.append(id)
                await asyncio.sleep(3_600)
                return len(runs)

            return charge

        one, two = map(declare, apps)
        async with apps[0], apps[1]:
            first = asyncio.create_task(one("17"))
            await asyncio.sleep(60)
            answers = await asyncio.gather(first, two("17"))
            before = dict(next(iter(data.partitions.values())))
            await asyncio.sleep(3_600)
            return answers, runs, before == dict(next(iter(data.partitions.values())))

    assert run_virtual(story) == ([1, 1], ["17"], True)


# ── A model of it ───────────────────────────────────────────────────────────────────────────────────────────────────

OFFSETS_MS = (0, 600_000, -600_000)
KEYS = ("17", "18")
PAYLOADS = ("aa", "bb")
FAULTS = st.sampled_from([None, None, None, LoseAnswer(), FailBefore()])


@dataclass
class Expected:
    """What the model says is on record."""

    fingerprint: str
    status: str
    owner: int
    lease_until: int
    expires_at: int | None
    started: int = 1
    finished: int = 0
    outcome: bytes = b""


class NextFault:
    """Lets one thing go wrong, at the next write."""

    def __init__(self) -> None:
        self.fault: Any = None

    def on_write(self, _number: int) -> Any:
        fault, self.fault = self.fault, None
        return fault

    def on_read(self) -> None:
        return None

    def on_ring(self) -> None:
        return None


@dataclass
class Holding:
    """A ticket, by its number in the model, and the process that has it."""

    number: int
    process: int
    ticket: Ticket


class KeyMachine(RuleBasedStateMachine):
    """Three processes whose clocks differ by ten minutes either way, two keys, faults; compared with a model."""

    tickets: Any = Bundle("tickets")

    def __init__(self) -> None:
        super().__init__()
        self.loop = VirtualTimeLoop()  # type: ignore[abstract]
        self.ms = START_MS
        self.records: dict[str, Expected] = {}
        self.gone: set[int] = set()
        self.numbers = 0
        self.owners: dict[int, int] = {}

    def make_database(self) -> Any:
        raise NotImplementedError

    @initialize()
    def open(self) -> None:
        self.database = self.make_database()
        self.plans = [NextFault() for _ in OFFSETS_MS]
        self.homes = [self.run(self.database.open(f"p{number}")) for number in range(len(OFFSETS_MS))]
        self.opened = [
            OpenApp(faulty_home(home, plan), self.clock(offset))
            for home, plan, offset in zip(self.homes, self.plans, OFFSETS_MS, strict=True)
        ]

    def clock(self, offset: int) -> Any:
        clock = Clock()
        clock.now_ms = lambda: self.ms + offset  # type: ignore[method-assign]
        return clock

    def run(self, work: Any) -> Any:
        async def attempt() -> Any:
            try:
                return await work
            except hf.HoldfastError as error:
                return error

        return self.loop.run_until_complete(attempt())

    def teardown(self) -> None:
        if hasattr(self, "database"):
            self.run(self.database.close())
        self.loop.close()

    @rule(
        target=tickets,
        process=st.sampled_from(range(3)),
        key=st.sampled_from(KEYS),
        payload=st.sampled_from(PAYLOADS),
        fault=FAULTS,
    )
    def acquire(self, process: int, key: str, payload: str, fault: Any) -> Any:
        now = self.ms + OFFSETS_MS[process]
        expected = self.records.get(key)
        fresh = expected is None or (expected.expires_at is not None and expected.expires_at <= now)
        self.plans[process].fault = fault
        place = place_of("model", key, payload)
        opened = self.opened[process]
        owner = idempotency.new_owner(opened)
        found = self.run(idempotency.acquire(opened, place, TERMS, owner=owner, lease_ms=LEASE_MS))
        self.plans[process].fault = None
        until = now + LEASE_MS
        if fresh:
            self.records[key] = expected = Expected(payload, "RUNNING", 0, until, until + WINDOW_MS)
            return self.taken(process, key, expected, found)
        assert expected is not None
        if expected.fingerprint != payload:
            assert isinstance(found, hf.IdempotencyMismatch)
        elif expected.status in {"COMPLETED", "FAILED"}:
            assert isinstance(found, Ended) and found.status == expected.status
            assert bytes(found.record.result) == expected.outcome
        elif expected.status == "PARKED":
            assert isinstance(found, hf.KeyParked)
        elif expected.status == "RUNNING" and self.stands(expected, now):
            assert isinstance(found, Held) and found.until == expected.lease_until
        elif expected.status == "RUNNING" and expected.started - expected.finished >= TERMS.max_crashes:
            assert isinstance(found, hf.KeyParked)
            expected.status, expected.expires_at = "PARKED", None
        else:
            expected.status, expected.lease_until, expected.expires_at = "RUNNING", until, until + WINDOW_MS
            expected.started += 1
            return self.taken(process, key, expected, found)
        return None

    def stands(self, expected: Expected, now: int) -> bool:
        return expected.lease_until >= now - SKEW_MS and self.owners[expected.owner] not in self.gone

    def taken(self, process: int, key: str, expected: Expected, found: Any) -> Holding:
        assert isinstance(found, Ticket), found
        self.numbers += 1
        expected.owner = self.numbers
        self.owners[self.numbers] = process
        assert (found.record.started, found.record.finished) == (expected.started, expected.finished)
        return Holding(self.numbers, process, found)

    @rule(held=consumes(tickets), move=st.sampled_from(["complete", "fail", "release"]), fault=FAULTS)
    def settle(self, held: Holding | None, move: str, fault: Any) -> None:
        if held is None:
            return
        opened, key = self.opened[held.process], held.ticket.place.sort
        result = str(held.number).encode()
        work = {
            "complete": lambda: idempotency.complete(opened, held.ticket, Raw(result)),
            "fail": lambda: idempotency.fail(opened, held.ticket, describe(OSError("x"))),
            "release": lambda: idempotency.release(opened, held.ticket),
        }[move]
        self.plans[held.process].fault = fault
        found = self.run(work())
        self.plans[held.process].fault = None
        expected = self.records.get(key)
        if expected is None or expected.status != "RUNNING" or expected.owner != held.number:
            assert isinstance(found, hf.LeaseLost), "a zombie changed the record"
            return
        assert not isinstance(found, Exception)
        expected.status = {"complete": "COMPLETED", "fail": "FAILED", "release": "FREE"}[move]
        expected.outcome = result if move == "complete" else b""
        expected.finished += 1
        expected.expires_at = self.ms + OFFSETS_MS[held.process] + WINDOW_MS

    @rule(held=tickets, fault=FAULTS)
    def renew(self, held: Holding | None, fault: Any) -> None:
        if held is None:
            return
        self.plans[held.process].fault = fault
        found = self.run(idempotency.renew(self.opened[held.process], held.ticket, LEASE_MS))
        self.plans[held.process].fault = None
        expected = self.records.get(held.ticket.place.sort)
        ours = expected is not None and expected.status == "RUNNING" and expected.owner == held.number
        assert found == (ours or fault is not None)
        until = self.ms + OFFSETS_MS[held.process] + LEASE_MS
        if ours and until > expected.lease_until and fault != FailBefore():
            expected.lease_until, expected.expires_at = until, until + WINDOW_MS

    @rule(process=st.sampled_from(range(3)), key=st.sampled_from(KEYS))
    def forget(self, process: int, key: str) -> None:
        now = self.ms + OFFSETS_MS[process]
        expected = self.records.get(key)
        found = self.run(idempotency.forget(self.opened[process], place_of("model", key)))
        if expected is None or (expected.expires_at is not None and expected.expires_at <= now):
            assert found is False
        elif expected.status == "RUNNING" and self.stands(expected, now):
            assert isinstance(found, hf.InvalidState)
        else:
            assert found is True
            del self.records[key]

    @rule(process=st.sampled_from(range(1, 3)))
    def die(self, process: int) -> None:
        """Its leases count as left behind at once; writes of its own that are under way still arrive."""
        if process not in self.gone:
            self.gone.add(process)
            self.run(self.homes[process].doorbell.close())

    @rule(seconds=st.sampled_from([1, 10, 31, 33, 601, 1_234, 3_599, 3_700, 10_000]))
    def time_passes(self, seconds: int) -> None:
        self.ms += seconds * 1000

    @invariant()
    def the_store_holds_what_the_model_says(self) -> None:
        for key in KEYS:
            place = place_of("model", key)
            item = None if not hasattr(self, "homes") else self.run(self.homes[0].store.get(place.partition, key))
            expected = self.records.get(key)
            assert (item is None) == (expected is None)
            if item is not None and expected is not None:
                record = idempotency.decode(item)
                assert (item.status, item.expires_at) == (expected.status, expected.expires_at)
                assert (record.started, record.finished) == (expected.started, expected.finished)
                assert (item.owner is None) == (item.lease_until is None) == (item.status != "RUNNING")
                assert item.due_at is None


class MemoryKeys(KeyMachine):
    def make_database(self) -> Any:
        return MemoryDatabase()


class SqliteKeys(KeyMachine):
    def make_database(self) -> Any:
        self.folder = tempfile.TemporaryDirectory()
        return SqliteDatabase(Path(self.folder.name))

    def teardown(self) -> None:
        super().teardown()
        if hasattr(self, "folder"):
            self.folder.cleanup()


TestMemoryKeys = MemoryKeys.TestCase
TestMemoryKeys.settings = settings(max_examples=150, stateful_step_count=40)
TestSqliteKeys = SqliteKeys.TestCase
TestSqliteKeys.settings = settings(max_examples=30, stateful_step_count=40)
