"""Streams against a model that is a list: any operations, on memory, on SQLite, and while answers get lost."""

from __future__ import annotations

import tempfile
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.coordination.stream.accounts import SNAPPED, Deposited, cents_of
from tests.worlds import World

import holdfast as hf
from holdfast.testing import FaultsAt, faulty_home, run_virtual
from holdfast.testing.faults import FailBefore, LoseAnswer

KEYS = st.sampled_from(["a", "b"])
EVENTS = st.lists(st.integers(0, 9), min_size=1, max_size=3)
VERSIONS = st.none() | st.integers(0, 8)
IDS = st.none() | st.sampled_from(["r1", "r2"])
ENDS = st.none() | st.integers(0, 12)

OPERATIONS = st.one_of(
    st.tuples(st.just("append"), KEYS, EVENTS, VERSIONS, IDS, st.booleans()),
    st.tuples(st.just("read"), KEYS, st.integers(0, 8), ENDS, st.booleans(), st.none() | st.integers(0, 5)),
    st.tuples(st.just("version"), KEYS, st.booleans()),
    st.tuples(st.just("state"), KEYS, ENDS),
    st.tuples(st.just("decide"), KEYS, IDS),
    st.tuples(st.just("all"), st.integers(0, 12), st.none() | st.integers(0, 5)),
)


class Model:
    """Lists of events by key, what each request appended, and all events in their order."""

    def __init__(self):
        self.streams = {"a": [], "b": []}
        self.requests = {}
        self.order = []

    def append(self, key, events, version, id):
        stream = self.streams[key]
        if id is not None and (key, id) in self.requests:
            first, given = self.requests[key, id]
            return list(range(first + 1, first + len(given) + 1)) if given == events else "mismatch"
        if version is not None and version != len(stream):
            return f"conflict {len(stream)}"
        first = len(stream)
        if id is not None:
            self.requests[key, id] = (first, events)
        stream += events
        self.order += [(key, first + n) for n in range(1, len(events) + 1)]
        return list(range(first + 1, len(stream) + 1))

    def apply(self, operation):
        match operation:
            case ("append", key, events, version, id, _fresh):
                return self.append(key, events, version, id)
            case ("read", key, after, upto, backwards, limit):
                found = self.streams[key][:upto][after:]
                return (found[::-1] if backwards else found)[:limit]
            case ("version", key, _fresh):
                return len(self.streams[key])
            case ("state", key, version):
                return sum(self.streams[key][:version])
            case ("decide", key, id):
                if id is not None and (key, id) in self.requests:
                    first, given = self.requests[key, id]
                    return list(range(first + 1, first + len(given) + 1))
                return self.append(key, [sum(self.streams[key]) % 10], None, id)
            case ("all", after, limit):
                return self.order[after:][:limit]


async def apply(app, handles, operation):
    streams = app.streams(Deposited)
    try:
        match operation:
            case ("append", key, events, version, id, fresh):
                stream = streams.at(key) if fresh else handles[key]
                found = await stream.append(*map(Deposited, events), version=version, id=id)
                return [each.version for each in found]
            case ("read", key, after, upto, backwards, limit):
                read = handles[key].read(after=after, upto=upto, backwards=backwards, limit=limit)
                return await cents_of(read)
            case ("version", key, fresh):
                return await (streams.at(key) if fresh else handles[key]).version()
            case ("state", key, version):
                return await handles[key].state(SNAPPED, version=version)
            case ("decide", key, id):
                found = await handles[key].decide(SNAPPED, lambda total: [Deposited(total % 10)], id=id)
                return [each.version for each in found]
            case ("all", after, limit):
                return [(each.key[0], each.version) async for each in streams.read(after=after, limit=limit)]
    except hf.Conflict as conflict:
        return f"conflict {conflict.there}"
    except hf.IdempotencyMismatch:
        return "mismatch"


async def compare(world, operations, plan=None, *, ordered=True):
    async def open_home():
        return faulty_home(await world.home(), plan)

    model, app = Model(), world.app(**({} if plan is None else {"home": open_home}))
    streams = app.streams(Deposited, ordered=ordered)
    async with app:
        handles = {key: streams.at(key) for key in model.streams}
        for operation in operations:
            expected = model.apply(operation)
            assert await apply(app, handles, operation) == expected, operation


@given(st.lists(OPERATIONS, max_size=40))
async def test_streams_behave_like_lists_on_memory(operations):
    await compare(World("memory", Path()), operations)


@settings(max_examples=40)
@given(st.lists(OPERATIONS, max_size=40))
async def test_streams_behave_like_lists_on_sqlite(operations):
    with tempfile.TemporaryDirectory() as folder:
        await compare(World("sqlite", Path(folder)), operations)


@given(
    st.lists(OPERATIONS, max_size=30),
    st.dictionaries(st.integers(1, 30), st.sampled_from([LoseAnswer(), FailBefore()]), max_size=5),
)
def test_streams_behave_like_lists_while_answers_get_lost(operations, faults):
    run_virtual(lambda: compare(World("memory", Path()), operations, FaultsAt(faults)))
