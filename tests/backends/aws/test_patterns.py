"""The patterns of state on DynamoDB: against their models, with lost answers; what they cost; clocks that differ."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from functools import partial
from random import Random
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.stateful import run_state_machine_as_test
from tests.backends.aws.faults import FaultyConnection, sometimes
from tests.backends.aws.world import DynamoDatabase
from tests.coordination.document import test_model as documents
from tests.coordination.stream import test_model as streams
from tests.coordination.test_idempotency import KeyMachine
from tests.messaging import test_model as outbox
from tests.patterns import test_lease_model as leases
from tests.patterns.conftest import Machines

import holdfast as hf
from holdfast.backends.aws import Bells, DynamoStore, LocalDoorbell, Usage
from holdfast.errors import StoreUnavailable
from holdfast.ports import Home
from holdfast.testing import FaultsAt, RandomFaults, run_scenario, run_virtual
from holdfast.testing import World as Simulated
from holdfast.testing.faults import FailBefore, LoseAnswer

OpenStore = Callable[..., Awaitable[DynamoStore]]

FEW = settings(max_examples=8, suppress_health_check=[HealthCheck.function_scoped_fixture])
FAULTS = st.dictionaries(st.integers(1, 30), st.sampled_from([LoseAnswer(), FailBefore()]), max_size=5)
# Listings come in no order here, and nothing is purged by workers.
DOCUMENT_OPERATIONS = documents.OPERATIONS.filter(lambda operation: operation[0] not in {"list", "purge"})
# All streams together have no order here.
STREAM_OPERATIONS = streams.OPERATIONS.filter(lambda operation: operation[0] != "all")


class World:
    """A home on a table of its own, as the models of the patterns want it."""

    def __init__(self, client: Any) -> None:
        self._database = _database(client)

    async def home(self) -> Home:
        return await self._database.open("one")

    def app(self, **options: Any) -> hf.App:
        return hf.App("shop", **({"home": self.home} | options))


@FEW
@given(st.lists(DOCUMENT_OPERATIONS, max_size=25), FAULTS)
def test_documents_behave_like_a_dictionary(client: Any, operations: list[Any], faults: dict[int, Any]) -> None:
    run_virtual(lambda: documents.compare(World(client), operations, FaultsAt(faults)))


@FEW
@given(st.lists(STREAM_OPERATIONS, max_size=25), FAULTS)
def test_streams_behave_like_lists(client: Any, operations: list[Any], faults: dict[int, Any]) -> None:
    run_virtual(lambda: streams.compare(World(client), operations, FaultsAt(faults), ordered=False))


@settings(FEW, max_examples=4)
@given(st.integers(0, 2**32), leases.OFFSETS)
def test_no_fence_of_a_lease_has_two_owners(client: Any, seed: int, offsets: list[int]) -> None:
    run_virtual(lambda: _contest(client, seed, offsets), seed=seed)


async def _contest(client: Any, seed: int, offsets: list[int]) -> None:
    world = Simulated(lambda _app, _ledger: _nobody, limits=hf.Limits(), database=_database(client))
    try:
        await leases.contest(seed, offsets)(Machines(world))
    finally:
        await world.close()


async def _nobody() -> None:
    await asyncio.sleep(0)


@settings(FEW, max_examples=6)
@given(outbox.SCRIPTS, st.integers(0, 2**32))
def test_what_was_published_is_applied_once_in_order(client: Any, script: list[Any], seed: int) -> None:
    scenario = replace(outbox.scenario_of(script), database=lambda: _database(client))
    plans = [RandomFaults(Random(f"{seed}/{number}"), outbox.RATES) for number in range(2)]
    run = run_scenario(scenario, plans, seed=seed)
    groups = outbox.committed(script)
    assert run.violations == []
    assert run.observation.result == repr([groups, groups])


def test_keys_of_idempotent_calls_behave_like_their_model(client: Any) -> None:
    class Keys(KeyMachine):
        def make_database(self) -> Any:
            return _database(client)

    run_state_machine_as_test(Keys, settings=settings(FEW, max_examples=8, stateful_step_count=25))


def _database(client: Any) -> DynamoDatabase:
    return DynamoDatabase(client)


# ── What it costs ───────────────────────────────────────────────────────────────────────────────────────────────────


def _open(store: DynamoStore, owner: str = "one") -> Callable[[], Awaitable[Home]]:
    async def home() -> Home:
        return Home(url="aws://test", owner=owner, store=store, doorbell=LocalDoorbell(Bells(), owner))

    return home


async def _cost(store: DynamoStore, work: Awaitable[object]) -> Usage:
    store.meter.reset()
    await work
    return store.meter.total


@pytest.mark.gentle("it counts requests and units")
async def test_what_the_patterns_cost(open_store: OpenStore) -> None:
    store = await open_store()
    app = hf.App("shop", home=_open(store))
    cost = partial(_cost, store)

    @app.idempotent(key="id")
    async def charge(id: str) -> str:
        return id

    async def lease() -> None:
        async with app.lease("report"):
            pass

    async with app:
        assert await cost(charge("17")) == Usage(requests=2, write_units=2)
        assert await cost(charge("17")) == Usage(requests=1, write_units=1)  # a refusal is billed, and is the load
        note = app.document(str, "n")
        assert await cost(note.create("a")) == Usage(requests=1, write_units=1)
        assert await cost(note.update(lambda text: text + "b")) == Usage(requests=2, write_units=1, read_units=1)
        assert await cost(note.get()) == Usage(requests=1, read_units=1)
        await lease()  # the first is made
        assert await cost(lease()) == Usage(requests=2, write_units=2)
        stream = app.stream(int, "s")
        await stream.append(1)
        assert await cost(stream.append(2, version=1)) == Usage(requests=1, write_units=1)
        web = app.session("web")
        assert await cost(web.start({"cart": []})) == Usage(requests=1, write_units=1)
    await store.close()


# ── Faults and clocks ───────────────────────────────────────────────────────────────────────────────────────────────


class Skewed:
    """A clock that is off by some seconds."""

    def __init__(self, seconds: int) -> None:
        self._off_ms = seconds * 1_000
        self._base_ms = 1_700_000_000_000

    def now_ms(self) -> int:
        return self._base_ms + self._off_ms + int(asyncio.get_running_loop().time() * 1_000)


@pytest.mark.parametrize("seed", [1, 2])
async def test_side_by_side_with_lost_answers_and_clocks_that_differ(seed: int, open_store: OpenStore) -> None:
    """Two processes, a minute apart. Nothing is lost, nothing counted twice, no fence has two owners."""
    faulty: list[FaultyConnection] = []

    def wrap(connection: Any) -> FaultyConnection:
        faulty.append(FaultyConnection(connection, sometimes(seed, 0.25)))
        return faulty[0]

    store = await open_store(wrap)
    charged: list[str] = []
    fences: list[int] = []
    counted = 0

    def process(owner: str, off_seconds: int) -> tuple[hf.App, Any]:
        app = hf.App("shop", home=_open(store, owner), clock=Skewed(off_seconds))

        @app.idempotent(key="id", window="24h", lease="1h", wait="1m")
        async def charge(id: str) -> str:
            await asyncio.sleep(0.1)  # the other process asks for the same key meanwhile
            charged.append(id)
            return f"paid {id}"

        return app, charge

    async def work(app: hf.App, charge: Any) -> None:
        nonlocal counted
        document, stream = app.document(int, "n"), app.stream(int, "s")
        for number in range(6):
            assert await _until_known(lambda n=number: charge(f"{n}")) == f"paid {number}"
            async with app.lease("x", ttl="1h") as held:  # nothing lapses here, whatever the clocks say
                fences.append(held.fence)
                await _until_known(lambda: document.update(lambda n: n + 1, default=0))
                await _until_known(lambda n=number: stream.append(n, id=f"{id(app)}-{n}"))
                counted += 1

    one, two = process("one", 0), process("two", 60)
    async with one[0], two[0]:
        await asyncio.gather(work(*one), work(*two))
        events = [each.event async for each in one[0].stream(int, "s").read()]
        total = (await one[0].document(int, "n").get()).value
    assert len(fences) == len(set(fences)) == counted == 12
    assert fences == sorted(fences)
    assert sorted(events) == sorted([*range(6)] * 2)
    assert total >= 12  # an update whose answer is lost for good may be made twice: it says so, and here it is repeated
    assert sorted(charged) == [f"{n}" for n in range(6)]
    assert sum(faulty[0].suffered.values()) >= 15
    await store.close()


async def _until_known(work: Callable[[], Awaitable[Any]]) -> Any:
    while True:
        try:
            return await work()
        except StoreUnavailable:
            continue
