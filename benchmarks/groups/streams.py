"""Streams: appends to many and to one, and the same by the SQLite recorder of the `eventsourcing` library beside it."""

from __future__ import annotations

import asyncio
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

import holdfast as hf
from benchmarks import bare
from benchmarks.groups.throughput import BARE
from benchmarks.plan import Case, Ours, Params, Row
from holdfast.coordination.stream.record import EVENT_PREFIX

STATE = b'{"cents":12345,"by":"somebody with a name","at":"2026-11-05T12:30:00Z"}'
FULL = 2
"""SQLite's ``synchronous``: every commit is on the disk before it is answered."""


@dataclass
class Deposited:
    """An event, as large as the other library's."""

    cents: int
    by: str
    at: str


EVENT = Deposited(12345, "somebody with a name", "2026-11-05T12:30:00Z")


async def appends(params: Params) -> Any:
    """Ours: events of one append each, to as many streams as there are writers; then all to one stream."""
    values = {}
    for name, ordered in (("apart", False), ("ordered", True)):
        app = hf.App("bench", home=f"sqlite:///{Path(params['folder']) / f'{name}.db'}")
        streams = app.streams(Deposited, ordered=ordered)
        async with app:
            await _fill(streams, params["writers"], 20)
            began = time.perf_counter()
            await _fill(streams, params["writers"], params["each"])
            values[name] = params["writers"] * params["each"] / (time.perf_counter() - began)
            began = time.perf_counter()
            await _fill(streams, 1, params["alone"])
            values[f"{name}_alone"] = params["alone"] / (time.perf_counter() - began)
            began = time.perf_counter()
            page = [each async for each in streams.at("0").read(limit=params["alone"])]
            values[f"{name}_read"] = len(page) / (time.perf_counter() - began)
    return values, {"synchronous": FULL}


async def _fill(streams: hf.Streams[Deposited], writers: int, each: int) -> None:
    async def write(number: int) -> None:
        stream = streams.at(str(number))
        version = await stream.version()
        for _ in range(each):
            (recorded,) = await stream.append(EVENT, version=version)
            version = recorded.version

    await asyncio.gather(*(write(number) for number in range(writers)))


async def bare_appends(params: Params) -> Any:
    """As many events of the same bytes in a bare loop, of all writers and of one."""
    app = hf.App("bench", home=f"sqlite:///{Path(params['folder']) / 'one.db'}")
    streams = app.streams(Deposited)
    async with app:
        await _fill(streams, 1, 1)
        stored = await app.runtime().home.store.query(streams.at("0").place.partition, prefix=EVENT_PREFIX)
    body, writers = stored.items[0].body, params["writers"]
    together, alone = Path(params["folder"]) / "together", Path(params["folder"]) / "alone"
    together.mkdir()
    alone.mkdir()
    return {
        "bare": bare.appends(str(together), body, writers, writers * params["each"]),
        "bare_alone": bare.appends(str(alone), body, 1, params["alone"]),
    }, {}


def recorder(params: Params) -> Any:
    """Theirs: the same, by threads, as the library is used; its journal is WAL, its commits are synced."""
    from eventsourcing.persistence import StoredEvent
    from eventsourcing.sqlite import SQLiteApplicationRecorder, SQLiteDatastore

    store = SQLiteDatastore(str(Path(params["folder"]) / "theirs.db"), pool_size=params["writers"], max_overflow=10)
    it = SQLiteApplicationRecorder(store)
    it.create_table()
    with store.transaction(commit=False) as cursor:
        cursor.execute("PRAGMA synchronous")
        (synchronous,) = cursor.fetchone()
    assert synchronous == FULL, synchronous
    ids = threading.local()

    def write(each: int) -> None:
        id, first = uuid4(), 1
        ids.last = id
        for version in range(first, first + each):
            it.insert_events([StoredEvent(id, version, "Deposited", STATE)])

    def fill(writers: int, each: int) -> float:
        began = time.perf_counter()
        with ThreadPoolExecutor(writers) as pool:
            for done in [pool.submit(write, each) for _ in range(writers)]:
                done.result()
        return writers * each / (time.perf_counter() - began)

    fill(params["writers"], 5)
    values = {"theirs": fill(params["writers"], params["each"])}
    began = time.perf_counter()
    write(params["alone"])
    values["theirs_alone"] = params["alone"] / (time.perf_counter() - began)
    began = time.perf_counter()
    values["theirs_read"] = len(it.select_events(ids.last)) / (time.perf_counter() - began)
    store.close()
    return values, {"synchronous": synchronous}


OURS = {"writers": 64, "each": 200, "alone": 2_000}
THEIRS = {"writers": 8, "each": 200, "alone": 1_000}

CASES = (
    Case(
        "streams",
        "streams",
        ours=(
            Ours("appends", OURS, quick={"each": 20, "alone": 200}),
            Ours("bare_appends", OURS, quick={"each": 20, "alone": 200}),
            Ours("recorder", THEIRS, quick={"each": 20, "alone": 100}),
        ),
        rows=(
            Row("events appended, 64 writers", "events/s", "higher", "apart"),
            Row(f"events appended, 64 writers, next to {BARE}", "×", "higher", "apart", over="bare"),
            Row("the same, with one order of all events", "events/s", "higher", "ordered"),
            Row("the same by eventsourcing's recorder, 8 threads", "events/s", "higher", "theirs"),
            Row("events appended, one writer", "events/s", "higher", "apart_alone"),
            Row(f"events appended, one writer, next to {BARE}", "×", "higher", "apart_alone", over="bare_alone"),
            Row("the same, with one order of all events (1)", "events/s", "higher", "ordered_alone"),
            Row("the same by eventsourcing's recorder (1)", "events/s", "higher", "theirs_alone"),
            Row("events read from one stream", "events/s", "higher", "apart_read"),
            Row("the same by eventsourcing's recorder (read)", "events/s", "higher", "theirs_read"),
        ),
    ),
)
