"""Documents against a model that is a dictionary: any sequence of operations, on memory and on SQLite."""

from __future__ import annotations

import tempfile
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.worlds import World

import holdfast as hf
from holdfast.coordination.document.record import REMNANT_MS
from holdfast.testing import FaultsAt, faulty_home, run_virtual
from holdfast.testing.faults import FailBefore, LoseAnswer

KEYS = st.sampled_from([("a",), ("b",), ("b", "1"), ("b", "2")])
VALUES = st.integers(0, 5)
VERSIONS = st.integers(1, 6)
TTLS = st.sampled_from([None, 1, 5])

OPERATIONS = st.one_of(
    st.tuples(st.just("get"), KEYS),
    st.tuples(st.just("create"), KEYS, VALUES, TTLS),
    st.tuples(st.just("put"), KEYS, VALUES, VERSIONS, TTLS),
    st.tuples(st.just("update"), KEYS, VALUES),
    st.tuples(st.just("upsert"), KEYS, VALUES, TTLS),
    st.tuples(st.just("delete"), KEYS, st.none() | VERSIONS),
    st.tuples(st.just("pass"), st.sampled_from([1, 3])),
    st.tuples(st.just("purge")),
    st.tuples(st.just("list")),
)


class Clock:
    def __init__(self):
        self.now = 10_000

    def now_ms(self):
        return self.now


class Model:
    """Versions and values by key; what is gone keeps its version."""

    def __init__(self, clock):
        self.clock = clock
        self.documents = {}

    def alive(self, key):
        found = self.documents.get(key)
        if found is None or found[1] is None or (found[2] is not None and found[2] <= self.clock.now):
            return None
        return found

    def write(self, key, value, expires_at):
        version = self.documents.get(key, (0, None, None))[0] + 1
        self.documents[key] = (version, value, expires_at)
        return version, value

    def expiry(self, ttl):
        return None if ttl is None else self.clock.now + ttl * 1000

    def apply(self, operation):
        match operation:
            case ("get", key):
                found = self.alive(key)
                return found and found[:2]
            case ("create", key, value, ttl):
                return "conflict" if self.alive(key) else self.write(key, value, self.expiry(ttl))
            case ("put", key, value, version, ttl):
                there = self.documents.get(key, (0, None, None))
                # Expiry is judged by who reads; a write goes by the version alone.
                return self.write(key, value, self.expiry(ttl)) if there[0] == version else "conflict"
            case ("update", key, value):
                found = self.alive(key)
                return self.write(key, found[1] + value, found[2]) if found else "missing"
            case ("upsert", key, value, ttl):
                found = self.alive(key)
                keep = found[2] if found else None
                return self.write(key, (found[1] if found else 0) + value, self.expiry(ttl) if ttl else keep)
            case ("delete", key, version):
                found = self.alive(key)
                if version is not None and (found is None or found[0] != version):
                    return "conflict"
                if found:
                    self.write(key, None, None)
                return found is not None
            case ("pass", seconds):
                self.clock.now += seconds * 1000
            case ("list",):
                found = {key: self.alive(key) for key in self.documents if len(key) == 2}
                return sorted((key, each[:2]) for key, each in found.items() if each)
        return None


async def apply(app, operation):
    documents = app.documents(int, name="numbers")

    def told(found):
        return (found.version, found.value)

    try:
        match operation:
            case ("get", key):
                found = await documents.at(*key).find()
                return found and told(found)
            case ("create", key, value, ttl):
                return told(await documents.at(*key).create(value, ttl=ttl))
            case ("put", key, value, version, ttl):
                return told(await documents.at(*key).put(value, version=version, ttl=ttl))
            case ("update", key, value):
                return told(await documents.at(*key).update(lambda n: n + value))
            case ("upsert", key, value, ttl):
                return told(await documents.at(*key).update(lambda n: n + value, default=0, ttl=ttl))
            case ("delete", key, version):
                return await documents.at(*key).delete(version=version)
            case ("purge",):
                await app.runtime().home.purges.purge(app.clock.now_ms(), 100)
            case ("list",):
                return [(each.key, told(each)) for each in (await documents.list("b")).documents]
    except hf.Conflict:
        return "conflict"
    except hf.NotFound:
        return "missing"
    return None


async def compare(world, operations, plan=None):
    clock = Clock()
    model = Model(clock)
    assert clock.now < REMNANT_MS  # nothing is forgotten within a test

    async def open_home():
        return faulty_home(await world.home(), plan)

    app = world.app(clock=clock, **({} if plan is None else {"home": open_home}))
    async with app:
        for operation in operations:
            expected = model.apply(operation)
            assert await apply(app, operation) == expected, operation


@given(st.lists(OPERATIONS, max_size=40))
async def test_documents_behave_like_a_dictionary_on_memory(operations):
    await compare(World("memory", Path()), operations)


@settings(max_examples=40)
@given(st.lists(OPERATIONS, max_size=40))
async def test_documents_behave_like_a_dictionary_on_sqlite(operations):
    with tempfile.TemporaryDirectory() as folder:
        await compare(World("sqlite", Path(folder)), operations)


@given(
    st.lists(OPERATIONS, max_size=30),
    st.dictionaries(st.integers(1, 30), st.sampled_from([LoseAnswer(), FailBefore()]), max_size=5),
)
def test_documents_behave_like_a_dictionary_while_answers_get_lost(operations, faults):
    run_virtual(lambda: compare(World("memory", Path()), operations, FaultsAt(faults)))
