"""Measure DBOS on SQLite. Runs in the peer's own environment, never in ours; prints one line of JSON.

    python measure_dbos.py BENCH '{"folder": ..., "wal": true, "mode": "async", ...}'

Each ``bench_*`` function below does what the function of the same name does for Holdfast in ``benchmarks/groups``: the
same work, the same counts, the same moments at which the clock starts and stops. ``mode`` is "sync" (threads) or
"async" (one event loop). The file starts in SQLite's default journal mode, which DBOS leaves alone, or in WAL.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import resource
import signal
import sqlite3
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any

Params = dict[str, Any]
Values = dict[str, float | list[float]]

POLL_SECONDS = 0.02
STALLED_SECONDS = 300
WARM_UP = 60
"""So many one-step workflows run before those of a crash test."""


# ── DBOS, and the workflows under test ──────────────────────────────────────────────────────────────────────────────


def url_of(params: Params) -> str:
    file = Path(params["folder"]) / "dbos.sqlite"
    if not file.exists() and params["wal"]:
        connection = sqlite3.connect(file)
        connection.execute("pragma journal_mode=wal")
        connection.close()
    return f"sqlite:///{file}"


def open_dbos(params: Params) -> SimpleNamespace:
    """DBOS with the workflows registered, not yet launched."""
    from dbos import DBOS

    DBOS(
        config={
            "name": "bench",
            "system_database_url": url_of(params),
            "log_level": "ERROR",
            "max_executor_threads": 80,
            "application_version": "v1",
            "executor_id": "local",
        }
    )
    return SimpleNamespace(**single_steps(DBOS), **fan_outs(DBOS), **waits(DBOS, params), DBOS=DBOS)


def single_steps(DBOS: Any) -> dict[str, Any]:  # noqa: N803  the name of the class
    @DBOS.step()
    def step(number: int) -> int:
        return number

    @DBOS.step()
    async def step_async(number: int) -> int:
        return number

    @DBOS.workflow()
    def one_step(number: int) -> int:
        return step(number)

    @DBOS.workflow()
    async def one_step_async(number: int) -> int:
        return await step_async(number)

    @DBOS.workflow()
    def no_step(number: int) -> int:
        return number

    @DBOS.workflow()
    def sequence(count: int) -> int:
        for number in range(count):
            step(number)
        return count

    @DBOS.workflow()
    async def sequence_async(count: int) -> int:
        for number in range(count):
            await step_async(number)
        return count

    names = (one_step, one_step_async, no_step, sequence, sequence_async)
    return {each.__name__: each for each in names}


def fan_outs(DBOS: Any) -> dict[str, Any]:  # noqa: N803  the name of the class
    @DBOS.step()
    async def part(number: int) -> int:
        return number

    @DBOS.workflow()
    async def child(number: int) -> int:
        return number

    @DBOS.workflow()
    async def parallel(count: int) -> int:
        return len(await asyncio.gather(*[part(number) for number in range(count)]))

    @DBOS.workflow()
    async def children_called(count: int) -> int:
        return len(await asyncio.gather(*[child(number) for number in range(count)]))

    @DBOS.workflow()
    async def children_started(count: int) -> int:
        handles = [await DBOS.start_workflow_async(child, number) for number in range(count)]
        return len([await handle.get_result() for handle in handles])

    return {each.__name__: each for each in (parallel, children_called, children_started)}


def waits(DBOS: Any, params: Params) -> dict[str, Any]:  # noqa: N803  the name of the class
    began: list[int] = []

    @DBOS.step()
    async def mark(number: int) -> int:
        began.append(number)
        return number

    @DBOS.step()
    async def hold(number: int) -> int:
        began.append(number)
        if params.get("hold"):
            await asyncio.sleep(3600)
        return number

    @DBOS.step()
    def count_on(number: int) -> int:
        return number

    @DBOS.workflow()
    async def overshoot(due: float) -> float:
        await DBOS.sleep_async(max(0.0, due - time.time()))
        return time.time() - due

    @DBOS.workflow()
    async def asleep(number: int, seconds: float) -> int:
        await mark(number)
        await DBOS.sleep_async(seconds)
        return await mark(number)

    @DBOS.workflow()
    async def in_step(number: int) -> int:
        return await hold(number)

    @DBOS.workflow()
    def long_history(count: int) -> int:
        for number in range(count):
            count_on(number)
        began.append(count)
        while params.get("hold"):
            time.sleep(1)
        return count

    return {each.__name__: each for each in (overshoot, asleep, in_step, long_history)} | {"began": began}


# ── Throughput and latency ──────────────────────────────────────────────────────────────────────────────────────────


def bench_one_step(params: Params) -> Values:
    it, concurrency = launched(params), params["concurrency"]
    drive(it, params["mode"], concurrency, range(min(concurrency * 4, 64)))
    numbers = Numbers(params["seconds"])
    took = drive(it, params["mode"], concurrency, numbers)
    return {"workflows_s": numbers.drawn / took}


class Numbers:
    """Numbers for so many seconds, at least 20 of them: how many are needed differs a hundredfold between disks."""

    def __init__(self, seconds: float) -> None:
        self.drawn = 0
        self._until = time.perf_counter() + seconds
        self._lock = threading.Lock()

    def __iter__(self) -> Iterator[int]:
        return self

    def __next__(self) -> int:
        with self._lock:
            if self.drawn >= 20 and time.perf_counter() > self._until:
                raise StopIteration
            self.drawn += 1
            return self.drawn


def drive(it: SimpleNamespace, mode: str, concurrency: int, numbers: Iterable[int]) -> float:
    """Run one-step workflows, so many at a time; answers the seconds."""
    numbers = iter(numbers)

    async def lane() -> None:
        for number in numbers:
            await it.one_step_async(number)

    async def lanes() -> None:
        await asyncio.gather(*[lane() for _ in range(concurrency)])

    def thread() -> None:
        for number in numbers:
            it.one_step(number)

    began = time.perf_counter()
    if mode == "async":
        asyncio.run(lanes())
    elif concurrency == 1:
        thread()
    else:
        with ThreadPoolExecutor(concurrency) as pool:
            for done in [pool.submit(thread) for _ in range(concurrency)]:
                done.result()
    return time.perf_counter() - began


def bench_sequential(params: Params) -> Values:
    it = launched(params)

    def run(count: int) -> None:
        asyncio.run(it.sequence_async(count)) if params["mode"] == "async" else it.sequence(count)

    run(20)
    values: Values = {}
    for size, times in params["sizes"]:
        began = time.perf_counter()
        for _ in range(times):
            run(size)
        took = (time.perf_counter() - began) / times
        values |= {f"steps_s_{size}": size / took, f"us_per_step_{size}": took / size * 1e6}
    return values


def bench_parallel(params: Params) -> Values:
    it = launched(params)
    asyncio.run(it.parallel(20))
    return {"ms": timed_ms(lambda: asyncio.run(it.parallel(params["count"])))}


def bench_children(params: Params) -> Values:
    it = launched(params)
    run = it.children_called if params["how"] == "called" else it.children_started
    asyncio.run(run(20))
    return {"ms": timed_ms(lambda: asyncio.run(run(params["count"])))}


def bench_calls(params: Params) -> Values:
    it = launched(params)

    async def calls(count: int) -> list[float]:
        took = []
        for number in range(count):
            began = time.perf_counter()
            await it.one_step_async(number)
            took.append((time.perf_counter() - began) * 1e3)
        return took

    if params["mode"] == "async":
        asyncio.run(calls(20))
        took = asyncio.run(calls(params["count"]))
    else:
        drive(it, "sync", 1, range(20))
        took = [timed_ms(lambda: it.one_step(1)) for _ in range(params["count"])]
    return {"p50_ms": percentile(took, 0.5), "p99_ms": percentile(took, 0.99)}


def bench_queue(params: Params) -> Values:
    """Enqueue from a client while nobody works, then launch and time until all is done."""
    from dbos import DBOSClient

    it, count = open_dbos(params), params["count"]
    it.DBOS.launch()
    it.DBOS.register_queue("q", polling_interval_sec=POLL_SECONDS)
    it.DBOS.destroy()  # what it leaves: the schema, and the queue's name
    client = DBOSClient(system_database_url=url_of(params), application_name="bench")
    options = {"queue_name": "q", "workflow_name": it.no_step.__qualname__, "app_version": "v1"}
    took = enqueue(client, options, params["mode"], count, params["concurrency"])
    client.destroy()
    it = open_dbos(params)
    began = time.perf_counter()
    it.DBOS.launch()
    it.DBOS.register_queue("q", polling_interval_sec=POLL_SECONDS)
    wait_for_success(params, count)
    return {"enqueued_s": count / took, "done_s": count / (time.perf_counter() - began)}


def bench_limited(params: Params) -> Values:
    """As ``bench_queue``, with a limit of the workflows that run at once."""
    from dbos import DBOSClient

    it, count = open_dbos(params), params["count"]
    it.DBOS.launch()
    it.DBOS.register_queue("q", concurrency=params["limit"], polling_interval_sec=POLL_SECONDS)
    it.DBOS.destroy()
    client = DBOSClient(system_database_url=url_of(params), application_name="bench")
    options = {"queue_name": "q", "workflow_name": it.no_step.__qualname__, "app_version": "v1"}
    took = enqueue(client, options, params["mode"], count, params["concurrency"])
    client.destroy()
    it = open_dbos(params)
    began = time.perf_counter()
    it.DBOS.launch()
    it.DBOS.register_queue("q", concurrency=params["limit"], polling_interval_sec=POLL_SECONDS)
    wait_for_success(params, count)
    return {"enqueued_s": count / took, "done_s": count / (time.perf_counter() - began)}


def bench_soon(params: Params) -> Values:
    """Enqueue one after the other into an idle queue, and time each until its body runs."""
    it = open_dbos(params)
    began = threading.Event()

    @it.DBOS.workflow()
    def at_once(_number: int) -> float:
        began.set()
        return time.perf_counter()

    it.DBOS.launch()
    it.DBOS.register_queue("q", concurrency=params["limit"], polling_interval_sec=params["poll_seconds"])
    took: list[float] = []
    for number in range(params["count"]):
        began.clear()
        asked = time.perf_counter()
        handle = it.DBOS.enqueue_workflow("q", at_once, number)
        began.wait()
        took.append((time.perf_counter() - asked) * 1e3)
        handle.get_result()
    return {"begin_p50_ms": statistics.median(took[5:])}


def enqueue(client: Any, options: dict[str, str], mode: str, count: int, concurrency: int) -> float:
    numbers = iter(range(count))

    async def lane() -> None:
        for number in numbers:
            await client.enqueue_async(options, number)

    async def lanes() -> None:
        await asyncio.gather(*[lane() for _ in range(concurrency)])

    began = time.perf_counter()
    if mode == "async":
        asyncio.run(lanes())
    else:
        with ThreadPoolExecutor(concurrency) as pool:
            list(pool.map(lambda number: client.enqueue(options, number), range(count)))
    return time.perf_counter() - began


def bench_timers(params: Params) -> Values:
    it = launched(params)

    async def at_once() -> list[float]:
        due = time.time() + params["seconds"]
        return await asyncio.gather(*[it.overshoot(due) for _ in range(params["count"])])

    asyncio.run(it.overshoot(time.time() + 0.01))
    late = [seconds * 1e3 for _ in range(params["times"]) for seconds in asyncio.run(at_once())]
    return {"late_ms": statistics.median(late), "latest_ms": max(late)}


def bench_commits(params: Params) -> Values:
    """Transactions that wrote, per workflow; counted where SQLAlchemy commits."""
    from sqlalchemy import event
    from sqlalchemy.engine import Engine

    it, counts = launched(params), SimpleNamespace(commits=0, wrote=set())

    def executed(connection: Any, _cursor: Any, statement: str, *_: Any) -> None:
        if statement.lstrip()[:6].upper() in {"INSERT", "UPDATE", "DELETE"}:
            counts.wrote.add(id(connection))

    def committed(connection: Any) -> None:
        if id(connection) in counts.wrote:
            counts.wrote.discard(id(connection))
            counts.commits += 1

    drive(it, "sync", 1, range(20))
    event.listen(Engine, "before_cursor_execute", executed)
    event.listen(Engine, "commit", committed)
    drive(it, "sync", 1, range(20))
    one = counts.commits / 20
    counts.commits = 0
    it.sequence(100)
    hundred = counts.commits
    counts.commits = 0
    drive(it, "async", 64, range(128))
    return {"one_step": one, "hundred_steps": hundred, "at_64": counts.commits / 128}


# ── Crashes ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def bench_recovery(params: Params) -> Values:
    """Start runs, kill the process while they are in flight, and time its successor from its start to the last end."""
    overdue_at = stage(params, "begin", hold=True)
    time.sleep(max(0, overdue_at - time.time()))
    began = time.time()
    return {"seconds": stage(params, "finish", hold=False) - began}


def bench_replay(params: Params) -> Values:
    """A history of many steps, a crash behind the last one, and the time from the next start to the end."""
    stage(params, "begin", hold=True)
    began = time.time()
    return {"seconds": stage(params, "finish", hold=False) - began}


def stage(params: Params, name: str, *, hold: bool) -> float:
    """Run one process of a crash test; what it says is a time. The first is killed as soon as it has said it."""
    child = subprocess.Popen(stage_command(name, {**params, "hold": hold}), stdout=subprocess.PIPE, text=True)
    try:
        assert child.stdout is not None
        line = child.stdout.readline()
    finally:
        if hold:
            child.send_signal(signal.SIGKILL)
        child.wait()
    if not line:
        raise SystemExit(f"the process {name!r} ended without an answer")
    return float(line)


def stage_command(name: str, params: Params) -> list[str]:
    return [sys.executable, __file__, name, json.dumps(params)]


def stage_begin(params: Params) -> None:
    """Start the workflows; when all are in flight, say from when on every timer is overdue, and wait to be killed."""
    it, count = launched(params), params["count"]

    async def start() -> None:
        await asyncio.gather(*[it.one_step_async(number) for number in range(WARM_UP // 2)])
        began = time.time()
        await asyncio.gather(*[it.one_step_async(number) for number in range(WARM_UP // 2)])
        each = (time.time() - began) / (WARM_UP // 2)
        seconds = each * count * 1.5 + 2  # so that the first still sleeps when the last begins
        for number in range(count):
            if params["kind"] == "asleep":
                await it.DBOS.start_workflow_async(it.asleep, number, seconds)
            else:
                await it.DBOS.start_workflow_async(it.in_step, number)
        await until(lambda: len(it.began) >= count)
        assert len(it.began) == count, "some have woken before all were asleep"
        await asyncio.sleep(1)  # the record of a step follows its body
        print(time.time() + (seconds if params["kind"] == "asleep" else 0), flush=True)
        await asyncio.sleep(3600)

    if params["kind"] == "history":
        it.DBOS.start_workflow(it.long_history, count)
        wait_until(lambda: bool(it.began))
        print(time.time(), flush=True)
        time.sleep(3600)
    asyncio.run(start())


def stage_finish(params: Params) -> None:
    launched(params)
    wait_for_success(params, 1 if params["kind"] == "history" else params["count"] + WARM_UP)
    print(time.time(), flush=True)


# ── Size ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def bench_startup(params: Params) -> Values:
    """From the start of a process to its first workflow done."""
    began = time.time()
    answer = subprocess.run(stage_command("ready", params), check=True, stdout=subprocess.PIPE).stdout
    ready_at, modules, megabytes = json.loads(answer)
    return {"worker_ms": (ready_at - began) * 1e3, "worker_modules": modules, "worker_rss_mb": megabytes}


def stage_ready(params: Params) -> None:
    it = launched(params)
    assert it.one_step(1) == 1
    print(json.dumps([time.time(), len(sys.modules), rss_mb()]), flush=True)


def bench_sleeping(params: Params) -> Values:
    it, count = launched(params), params["count"]

    async def start() -> Values:
        before = rss_mb()
        for number in range(count):
            await it.DBOS.start_workflow_async(it.asleep, number, 86_400.0)
        await until(lambda: len(it.began) >= count)
        await asyncio.sleep(1)
        return {"kb_each": (rss_mb() - before) * 1e3 / count, "rss_mb": rss_mb()}

    return asyncio.run(start())


# ── Tools ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def launched(params: Params) -> SimpleNamespace:
    it = open_dbos(params)
    it.DBOS.launch()
    return it


def wait_for_success(params: Params, count: int) -> None:
    """Wait until so many workflows have ended well; looks into the file, which costs DBOS less than asking it."""
    connection = sqlite3.connect(Path(params["folder"]) / "dbos.sqlite")
    query = "select count(*) from workflow_status where status = 'SUCCESS'"
    wait_until(lambda: connection.execute(query).fetchone()[0] >= count)
    connection.close()


def wait_until(ready: Callable[[], bool]) -> None:
    for _ in attempts():
        if ready():
            return
        time.sleep(POLL_SECONDS)


async def until(ready: Callable[[], bool]) -> None:
    for _ in attempts():
        if ready():
            return
        await asyncio.sleep(POLL_SECONDS)


def attempts() -> Iterator[None]:
    give_up_at = time.monotonic() + STALLED_SECONDS
    while time.monotonic() < give_up_at:
        yield
    raise SystemExit("DBOS has stalled")


def timed_ms(work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    return (time.perf_counter() - began) * 1e3


def percentile(values: list[float], share: float) -> float:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))]


def rss_mb() -> float:
    with contextlib.suppress(OSError):
        pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
        return pages * resource.getpagesize() / 1e6
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3


def watch_settings(notes: dict[str, Any]) -> None:
    """Note which settings are in force on the connections that DBOS itself opens."""
    from sqlalchemy import event
    from sqlalchemy.engine import Engine

    def connected(connection: Any, _record: Any) -> None:
        cursor = connection.cursor()
        notes["synchronous"] = cursor.execute("pragma synchronous").fetchone()[0]
        notes["journal_mode"] = cursor.execute("pragma journal_mode").fetchone()[0]
        cursor.close()

    event.listen(Engine, "connect", connected)


def main() -> None:
    name, params = sys.argv[1], json.loads(sys.argv[2])
    if name in STAGES:
        STAGES[name](params)
    else:
        notes: dict[str, Any] = {"sqlite": sqlite3.sqlite_version}
        watch_settings(notes)
        values = BENCHES[name](params)
        print(json.dumps({"values": values, "notes": notes}), flush=True)
    os._exit(0)  # the threads of DBOS outlive destroy()


BENCHES: dict[str, Callable[[Params], Values]] = {
    name.removeprefix("bench_"): each for name, each in list(globals().items()) if name.startswith("bench_")
}
STAGES: dict[str, Callable[[Params], None]] = {"begin": stage_begin, "finish": stage_finish, "ready": stage_ready}


if __name__ == "__main__":
    main()
