"""Sessions: the same on every home and on Redis."""

from __future__ import annotations

import asyncio
import contextlib
import re

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.redis_server import shared_redis  # noqa: F401 - a fixture of the test below

import holdfast as hf
from holdfast.backends.memory import MemoryData, open_memory_home
from holdfast.clock import SystemClock
from holdfast.errors import Refused
from holdfast.ids import new_id
from holdfast.testing import FaultCounts, FaultsAt, faulty_home
from holdfast.testing.faults import FailBefore, LoseAnswer

IDLE_MS, LIFETIME_MS = 600_000, 6_000_000


class MovedClock:
    """The machine's clock, moved on by hand."""

    def __init__(self):
        self.moved_ms = 0

    def now_ms(self):
        return SystemClock().now_ms() + self.moved_ms


class Place:
    """An app with sessions somewhere, and a way to let time pass there."""

    def __init__(self, kind, request, folder):
        self.kind = kind
        self.clock = MovedClock()
        home, cache = "memory://", None
        if kind == "sqlite":
            home = f"sqlite:///{folder}/home.db"
        if kind == "redis":
            cache = request.getfixturevalue("shared_redis").url
        self.app = hf.App(f"shop-{new_id()[:8]}", home=home, cache=cache, clock=self.clock)
        on = "cache" if kind == "redis" else "home"
        self.sessions = self.app.session("web", idle=IDLE_MS / 1000, lifetime=LIFETIME_MS / 1000, on=on)

    async def pass_time(self, milliseconds):
        self.clock.moved_ms += milliseconds
        if self.kind == "redis":  # it has no clock to set: each session is made older instead
            client = self.app.runtime().shared.sessions._connection._client
            async for key in client.scan_iter(f"*{self.app.name}*"):
                left = await client.pttl(key)
                await client.hincrby(key, "u", -milliseconds)
                await client.pexpire(key, max(left - milliseconds, 0))


@pytest.fixture(params=["memory", "sqlite", "redis"])
def place(request, tmp_path):
    return Place(request.param, request, tmp_path)


async def test_what_is_put_in_comes_out(place):
    async with place.app:
        started = await place.sessions.start({"user": 7, "cart": ["a"]})
        found = await place.sessions.find(started.id)
        assert found == started
        assert re.fullmatch(r"[0-9a-f]{48}", started.id)
        assert started.id not in repr(found)
        await place.sessions.end(started.id)
        await place.sessions.end(started.id)
        assert await place.sessions.find(started.id) is None


async def test_it_expires_when_it_was_not_looked_at_for_so_long(place):
    async with place.app:
        session = await place.sessions.start({"n": 1})
        for _ in range(5):
            await place.pass_time(int(IDLE_MS * 0.85))
            assert await place.sessions.find(session.id) is not None
        await place.pass_time(IDLE_MS + 1)
        assert await place.sessions.find(session.id) is None
        with pytest.raises(hf.NotFound):
            await place.sessions.update(session.id, {"n": 2})
        with pytest.raises(hf.NotFound):
            await place.sessions.rotate(session.id)


async def test_it_ends_when_its_life_is_over_however_often_it_is_used(place):
    async with place.app:
        session = await place.sessions.start()
        for _ in range(11):
            await place.pass_time(LIFETIME_MS // 12)
            assert await place.sessions.find(session.id) is not None
        await place.pass_time(LIFETIME_MS // 12 + 1)
        assert await place.sessions.find(session.id) is None


async def test_an_update_changes_what_it_names_and_not_when_it_expires(place):
    async with place.app:
        session = await place.sessions.start({"a": 1, "b": 2, "c": 3})
        await place.pass_time(IDLE_MS // 2)
        await place.sessions.update(session.id, {"b": 20, "d": None}, without=["a", "none"])
        await place.pass_time(IDLE_MS // 2 + 1)
        assert await place.sessions.find(session.id) is None, "an update is no visit"

        session = await place.sessions.start({"a": 1, "b": 2, "c": 3})
        await place.sessions.update(session.id, {"b": 20, "d": None}, without=["a", "none"])
        assert (await place.sessions.find(session.id)).values == {"b": 20, "c": 3, "d": None}
        await place.pass_time(IDLE_MS + 1)
        assert await place.sessions.find(session.id) is None, "it still expires"


async def test_updates_of_different_values_at_the_same_time_are_all_kept(place):
    async with place.app:
        session = await place.sessions.start()
        await asyncio.gather(*(place.sessions.update(session.id, {f"f{n}": n}) for n in range(20)))
        assert (await place.sessions.find(session.id)).values == {f"f{n}": n for n in range(20)}


async def test_a_rotated_id_is_worth_nothing_and_the_session_goes_on(place):
    async with place.app:
        session = await place.sessions.start({"user": 7})
        await place.pass_time(IDLE_MS // 2)
        new = await place.sessions.rotate(session.id)
        assert new != session.id
        assert await place.sessions.find(session.id) is None
        for call in (place.sessions.rotate, lambda id: place.sessions.update(id, {})):
            with pytest.raises(hf.NotFound, match="there is no such session"):
                await call(session.id)
        await place.sessions.end(session.id)
        assert (await place.sessions.find(new)).values == {"user": 7}
        await place.pass_time(LIFETIME_MS)
        assert await place.sessions.find(new) is None, "it is no older and no younger than before"


async def test_of_two_who_rotate_at_once_one_does(place):
    async with place.app:
        session = await place.sessions.start({"user": 7})
        outcomes = await asyncio.gather(*(place.sessions.rotate(session.id) for _ in range(5)), return_exceptions=True)
        assert sum(isinstance(each, str) for each in outcomes) == 1
        assert sum(isinstance(each, hf.NotFound) for each in outcomes) == 4


@pytest.mark.parametrize("id", ["", "x", "0" * 47, "0" * 48, "0" * 49, "G" * 48, "../../etc", None, 7, b"0" * 48])
async def test_what_is_no_id_finds_nothing(place, id):
    async with place.app:
        await place.sessions.start()
        assert await place.sessions.find(id) is None
        await place.sessions.end(id)
        with pytest.raises(hf.NotFound):
            await place.sessions.update(id, {"a": 1})


@pytest.mark.parametrize("values", [7, ["a"], {7: 1}, {"a": object()}, {"a": float("nan")}, {"a": "x" * 70_000}])
async def test_what_cannot_be_kept_is_refused(place, values):
    async with place.app:
        session = await place.sessions.start({"kept": 1})
        for call in (place.sessions.start, lambda them: place.sessions.update(session.id, them)):
            with pytest.raises(hf.InvalidInput):
                await call(values)
        assert (await place.sessions.find(session.id)).values == {"kept": 1}


NAMES = st.sampled_from(["a", "b", "c"])
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("set"), NAMES, st.integers()),
        st.tuples(st.just("remove"), NAMES),
        st.tuples(st.just("rotate")),
        st.tuples(st.just("find")),
        st.tuples(st.just("wait"), st.sampled_from([0.3, 0.5, 1.1])),
    ),
    max_size=12,
)


@settings(max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(STEPS)
async def test_it_does_what_a_dict_with_an_end_would_do(place, steps):
    async with place.app:
        id = (await place.sessions.start()).id
        values, idle_left, life_left, gone = {}, IDLE_MS, LIFETIME_MS, False
        for step in steps:
            try:
                match step:
                    case ("set", name, value):
                        await place.sessions.update(id, {name: value})
                        values[name] = value
                    case ("remove", name):
                        await place.sessions.update(id, {}, without=[name])
                        values.pop(name, None)
                    case ("rotate",):
                        id = await place.sessions.rotate(id)
                    case ("find",):
                        found = await place.sessions.find(id)
                        assert (found is None) == gone
                        if found is not None:
                            assert found.values == values
                            idle_left = IDLE_MS
                    case ("wait", share):
                        await place.pass_time(int(IDLE_MS * share))
                        idle_left -= int(IDLE_MS * share)
                        life_left -= int(IDLE_MS * share)
                        gone = gone or min(idle_left, life_left) <= 0
                        continue
                assert not gone or step == ("find",)
            except hf.NotFound:
                assert gone


async def test_an_answer_that_is_lost_changes_nothing():
    for number in range(1, 6):
        for fault in (LoseAnswer(), FailBefore()):
            data, counts = MemoryData(), FaultCounts()

            async def open_home(number=number, fault=fault, data=data, counts=counts):
                return faulty_home(open_memory_home(data=data), FaultsAt({number: fault}), counts=counts)

            app = hf.App("shop", home=open_home)
            sessions = app.session("web")
            async with app:
                session = await sessions.start({"n": 1})
                await sessions.update(session.id, {"n": 2, "m": 1})
                new = await sessions.rotate(session.id)
                await sessions.update(new, {}, without=["m"])
                assert (await sessions.find(new)).values == {"n": 2}
                assert await sessions.find(session.id) is None
                await sessions.end(new)
                assert await sessions.find(new) is None
            counts.require(1, type(fault))


async def test_the_store_learns_no_id(sqlite_world):
    app = sqlite_world.app()
    async with app:
        session = await app.session("web").start({"user": 7})
    for path in sqlite_world.file.parent.iterdir():
        if path.is_file():
            assert session.id.encode() not in path.read_bytes()


async def test_sessions_on_a_cache_need_one():
    async with hf.App("shop", home="memory://") as app:
        with pytest.raises(hf.ConfigurationError, match="this app has none"):
            await app.session("web", on="cache").start()


@pytest.mark.parametrize(
    "options",
    [{"idle": 0}, {"idle": -1}, {"idle": "1h", "lifetime": "30m"}, {"lifetime": "x"}, {"on": "moon"}, {"name": ""}],
)
def test_bad_input_is_refused_where_it_is_given(options):
    name = options.pop("name", "web")
    with pytest.raises(hf.InvalidInput):
        hf.App("shop").session(name, **options)


async def test_a_look_that_comes_late_does_not_shorten_the_session(memory_home_place):
    place = memory_home_place
    async with place.app:
        session = await place.sessions.start({"n": 1})
        await place.pass_time(IDLE_MS // 2)
        store = place.app.runtime().home.store
        write, late = store.write, []

        def held_back(*writes):
            store.write = write
            late.append(writes)
            return write(*writes)

        store.write = held_back
        assert await place.sessions.find(session.id) is not None
        await place.pass_time(IDLE_MS // 2)
        assert await place.sessions.find(session.id) is not None
        with contextlib.suppress(Refused):
            await write(*late[0])  # the first look once more, from a process that was stopped meanwhile
        await place.pass_time(int(IDLE_MS * 0.8))
        assert await place.sessions.find(session.id) is not None


@pytest.fixture
def memory_home_place(request, tmp_path):
    return Place("memory", request, tmp_path)
