"""The limit of this machine: a bare loop that commits the bytes of our workflows to our tables, and does nothing else.

It has no event loop, no leases, no retries and no codec. A figure of ours divided by that of the bare loop, in the same
run, is how much of what SQLite and the disk can do is left.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from benchmarks.workload import Workload
from holdfast.backends.sqlite.store import SqliteStore
from holdfast.workflows.record import partition_of

START = """
INSERT INTO holdfast_heads (partition, revision, status, owner, lease_until, epoch, due_at, body)
VALUES (?, 1, 'RUNNING', 'bare', 1, 1, 1, ?)
"""
END = """
UPDATE holdfast_heads SET revision = revision + 1, status = 'COMPLETED', owner = NULL, lease_until = NULL,
    due_at = NULL, body = ?
WHERE partition = ? AND revision = ?
"""
APPEND = """
INSERT INTO holdfast_entries (head, sort, revision, status, epoch, body) VALUES (?, ?, 1, '', 1, ?)
"""


DUE = "SELECT partition, body FROM holdfast_heads WHERE due_at <= 1 ORDER BY due_at LIMIT ?"
BEGIN = """
UPDATE holdfast_heads SET revision = 2, owner = 'bare', lease_until = 1, due_at = 1 WHERE partition = ? AND revision = 1
"""
STATE = "UPDATE holdfast_heads SET revision = revision + 1, body = ? WHERE partition = ?"
TAKEN = "DELETE FROM holdfast_entries WHERE head = ? AND sort = ?"


async def one_steps(folder: str, lanes: int, count: int) -> float:
    """One-step workflows per second: the start and the end of each, in commits of as many as there are lanes."""
    it = Workload(folder)
    async with it.client():
        handle = await it.one_step.start(0)
        place = partition_of(it.one_step.name, handle.id)
        start = await _body(it, place)
    async with it.worker():
        await handle
        end = await _body(it, place)
    names = [f"{place}-{number:08}" for number in range(count)]
    with _file(folder) as store:
        began = time.perf_counter()
        for first in range(0, count, lanes):
            batch = names[first : first + lanes]
            _commit(store, START, [(name, start) for name in batch])
            _commit(store, END, [(end, name, 1) for name in batch])
        return count / (time.perf_counter() - began)


async def steps(folder: str, count: int) -> float:
    """Steps of one workflow per second: a segment in a commit of its own for each."""
    it = Workload(folder)
    async with it.worker():
        handle = await it.sequence.start(3)
        await handle
        page = await it.app.runtime().home.store.query(partition_of(it.sequence.name, handle.id), prefix="j#")
    segment = page.items[1].body
    with _file(folder) as store:
        _commit(store, START, [("wf#sequence#bare", segment)])
        began = time.perf_counter()
        for number in range(count):
            _commit(store, APPEND, [(1, f"j#000000#{number:010}", segment)])
        return count / (time.perf_counter() - began)


async def starts(folder: str, lanes: int, count: int) -> float:
    """Starts per second: a head each, in commits of as many as there are lanes."""
    it = Workload(folder)
    async with it.client():
        start = await _body(it, partition_of(it.no_step.name, (await it.no_step.start(0)).id))
    rows = [(f"wf#no_step#bare-{number:08}", start) for number in range(count)]
    with _file(folder) as store:
        began = time.perf_counter()
        for first in range(0, count, lanes):
            _commit(store, START, rows[first : first + lanes])
        return count / (time.perf_counter() - began)


async def children(folder: str, count: int) -> float:
    """Milliseconds for so many children: a commit with their starts, and a commit with their ends."""
    it = Workload(folder)
    end = await _end_of(it, it.no_step)
    names = [f"wf#child#bare-{number:08}" for number in range(count)]
    with _file(folder) as store:
        began = time.perf_counter()
        _commit(store, START, [(name, end) for name in names])
        _commit(store, END, [(end, name, 1) for name in names])
        return (time.perf_counter() - began) * 1e3


async def parallel(folder: str, count: int) -> float:
    """Milliseconds for the steps of one workflow at once: its start, a commit with its journal, its end."""
    it = Workload(folder)
    async with it.worker():
        handle = await it.parallel.start(count)
        await handle
        place = partition_of(it.parallel.name, handle.id)
        journal = (await it.app.runtime().home.store.query(place, prefix="j#")).items
        end = await _body(it, place)
    with _file(folder) as store:
        began = time.perf_counter()
        _commit(store, START, [(place, end)])
        _commit(store, APPEND, [(1, item.sort, item.body) for item in journal])
        _commit(store, END, [(end, place, 1)])
        return (time.perf_counter() - began) * 1e3


def calls(folder: str, body: bytes, lanes: int, keys: int, count: int) -> float:
    """Calls of actors per second: the new state of one each, in commits of as many as there are lanes."""
    rows = [(body, f"actor#bare-{number % keys:06}") for number in range(count)]
    with _file(folder) as store:
        _commit(store, START, [(f"actor#bare-{key:06}", body) for key in range(keys)])
        began = time.perf_counter()
        for first in range(0, count, lanes):
            _commit(store, STATE, rows[first : first + lanes])
        return count / (time.perf_counter() - began)


def sends(folder: str, body: bytes, keys: int, count: int) -> tuple[float, float]:
    """Messages per second that are accepted, in one commit, and applied: the states, and the messages deleted."""
    with _file(folder) as store:
        _commit(store, START, [(f"actor#bare-{key:06}", body) for key in range(keys)])
        began = time.perf_counter()
        _commit(store, APPEND, [(1 + number % keys, f"i#{number:010}", body) for number in range(count)])
        accepted = time.perf_counter() - began
        _commit(store, STATE, [(body, f"actor#bare-{key:06}") for key in range(keys)])
        _commit(store, TAKEN, [(1 + number % keys, f"i#{number:010}") for number in range(count)])
        return count / accepted, count / (time.perf_counter() - began)


async def worked_off(folder: str, limit: int, count: int) -> float:
    """Jobs of a backlog per second: as many begin in one commit as the limit says, and end in one."""
    it = Workload(folder)
    body = await _end_of(it, it.no_step)
    names = [(f"wf#no_step#bare-{number:08}",) for number in range(count)]
    with _file(folder) as store:
        _commit(store, START, [(*name, body) for name in names])
        began = time.perf_counter()
        for first in range(0, count, limit):
            batch = names[first : first + limit]
            _commit(store, BEGIN, batch)
            _commit(store, END, [(body, *name, 2) for name in batch])
        return count / (time.perf_counter() - began)


async def woken(folder: str, count: int) -> float:
    """Milliseconds for executions whose timers are due at one moment: one look, a commit with their claims, and one
    with their ends.
    """
    it = Workload(folder)
    body = await _end_of(it, it.nap)
    with _file(folder) as store:
        _commit(store, START, [(f"wf#nap#bare-{number:08}", body) for number in range(count)])
        began = time.perf_counter()
        due = store.runner.connection.execute(DUE, (count,)).fetchall()
        _commit(store, BEGIN, [(name,) for name, _ in due])
        _commit(store, END, [(body, name, 2) for name, body in due])
        return (time.perf_counter() - began) * 1e3


def appends(folder: str, body: bytes, writers: int, count: int) -> float:
    """Events per second: one to a stream each, in commits of as many as there are writers."""
    rows = [(1 + number % writers, f"e#{number:020}", body) for number in range(count)]
    with _file(folder) as store:
        _commit(store, START, [(f"bare-{number:06}", b"") for number in range(writers)])
        began = time.perf_counter()
        for first in range(0, count, writers):
            _commit(store, APPEND, rows[first : first + writers])
        return count / (time.perf_counter() - began)


async def _end_of(it: Workload, workflow: Any) -> bytes:
    """The bytes of the head of an execution that has ended."""
    async with it.worker():
        handle = await workflow.start(0)
        await handle
        return await _body(it, partition_of(workflow.name, handle.id))


async def _body(it: Workload, place: str) -> bytes:
    head = await it.app.runtime().home.store.get(place)
    assert head is not None
    return head.body


@contextmanager
def _file(folder: str) -> Any:
    """An empty file with our tables and our settings: WAL, ``synchronous=FULL``."""
    store = SqliteStore.open(str(Path(folder) / "bare.db"))
    try:
        yield store
    finally:
        store.runner.connection.close(force=True)


def _commit(store: SqliteStore, statement: str, rows: Sequence[tuple[Any, ...]]) -> None:
    run = store.runner.connection.execute
    run("BEGIN IMMEDIATE")
    for row in rows:
        run(statement, row)
    run("COMMIT")
