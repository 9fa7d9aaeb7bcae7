"""Queues with limits: working a backlog off, how soon one begins, shares of many keys, and a long line."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from typing import Any

import holdfast as hf
from benchmarks import bare
from benchmarks.groups.throughput import BARE
from benchmarks.plan import Case, Dbos, Ours, Params, Row
from benchmarks.workload import Workload, in_lanes, percentile, rss_mb


async def limited(params: Params) -> Any:
    """Start workflows of a queue with a limit while nobody works; open a worker, and time until the last has ended."""
    it, count = Workload(params["folder"]), params["count"]
    queue = it.app.queue("q", limit=params["limit"])

    @it.app.workflow(queue=queue)
    async def limited_no_step(number: int) -> int:
        return number

    async with it.client():
        took = await in_lanes(limited_no_step.start, range(count), 64)
        began = time.perf_counter()
        async with it.worker():
            await it.told("ended", count)
            done = time.perf_counter() - began
            await it.check_completed(limited_no_step, count)
    return {"enqueued_s": count / took, "done_s": count / done}, it.settings


async def bare_limited(params: Params) -> Any:
    """The beginnings and the ends of the same jobs in a bare loop."""
    return {"bare_s": await bare.worked_off(params["folder"], params["limit"], params["count"])}, {}


async def soon(params: Params) -> Any:
    """Start workflows of an idle queue one after the other, and time each until its body runs."""
    it = Workload(params["folder"])
    queue = it.app.queue("q", limit=params["limit"])
    began = asyncio.Event()

    @it.app.workflow(queue=queue)
    async def at_once(_number: int) -> float:
        began.set()
        return time.perf_counter()

    took: list[float] = []
    async with it.worker():
        for number in range(params["count"]):
            began.clear()
            asked = time.perf_counter()
            handle = await at_once.start(number)
            await began.wait()
            took.append((time.perf_counter() - asked) * 1e3)
            await handle
            await asyncio.sleep(0.01)
    return {"begin_p50_ms": percentile(took[10:], 0.5), "begin_p95_ms": percentile(took[10:], 0.95)}, it.settings


async def shares(params: Params) -> Any:
    """Of many keys one has half of all jobs, all of which wait. While all keys wait, each has an equal share: how much
    less or more the others got than that, on average and the worst.
    """
    it, keys, jobs = Workload(params["folder"]), params["keys"], params["jobs"]
    queue, order = it.app.queue("q", limit=params["limit"]), list[str]()

    @it.app.workflow(queue=queue)
    async def tenant(key: str, _number: int) -> None:
        order.append(key)

    async def start(number: int) -> None:
        key = "flood" if number % 2 else f"k{number // 2 % keys}"
        await tenant.start(key, number, queued=hf.Queued(key=key))

    async with it.client():
        await in_lanes(start, range(jobs), 64)
        async with it.worker():
            await it.told("ended", jobs)
    first = Counter(order[: (keys + 1) * (jobs // 2 // keys - 1)])  # so long every key has work
    fair = sum(first.values()) / (keys + 1)
    others = [first[f"k{number}"] for number in range(keys)]
    worst = max(abs(each - fair) / fair for each in others)
    return {
        "off_by": abs(sum(others) / keys - fair) / fair * 100,
        "worst_off_by": worst * 100,
        "flood_share": first["flood"] / fair,
    }, it.settings


async def line(params: Params) -> Any:
    """Executions that wait, all of them: what they cost in memory, until the first begins, and to look at."""
    it, count = Workload(params["folder"]), params["count"]
    queue = it.app.queue("q", limit=1)

    @it.app.workflow(queue=queue)
    async def in_line(_number: int) -> None:
        await hf.sleep("1h")

    async with it.client():
        await in_lanes(in_line.start, range(count), 64)
    before = rss_mb()
    began = time.perf_counter()
    async with it.worker():
        opened = time.perf_counter()
        while not (await queue.status()).slots:
            await asyncio.sleep(0.01)
        first = time.perf_counter()
        held = rss_mb()
        await queue.status()
        looked = time.perf_counter()
        await queue.change(limit=101)
        while len(await _held(it, queue)) < 101:
            await asyncio.sleep(0.005)
        admitted = time.perf_counter()
    return {
        "mb": held - before,
        "open_ms": (opened - began) * 1e3,
        "first_ms": (first - began) * 1e3,
        "look_ms": (looked - first) * 1e3,
        "admit_100_ms": (admitted - looked) * 1e3,
    }, it.settings


async def _held(it: Workload, queue: hf.Queue) -> Any:
    from holdfast.flow.record import decode_gate

    head = await it.app.runtime().home.store.get(queue.partition)
    assert head is not None
    return decode_gate(head.body).held


CASES = (
    Case(
        "queue with a limit",
        "flow",
        (
            Ours("limited", {"limit": 64, "count": 10_000}, {"count": 1_000}),
            Ours("bare_limited", {"limit": 64, "count": 10_000}, {"count": 1_000}),
        ),
        (
            Row("started into a queue, 64 callers", "workflows/s", "higher", "enqueued_s"),
            Row("done, limit 64, once a worker opens", "workflows/s", "higher", "done_s", aim=4_000),
            Row(f"done, limit 64, next to {BARE}", "×", "higher", "done_s", over="bare_s", peer_metric=""),
        ),
        (
            Dbos(
                "limited",
                {"limit": 64, "count": 300},
                {"count": 50},
                {
                    "one caller": {"mode": "sync", "concurrency": 1},
                    "64 tasks": {"mode": "async", "concurrency": 64},
                },
                only_wal=True,
            ),
        ),
    ),
    Case(
        "queue begin",
        "flow",
        (Ours("soon", {"limit": 64, "count": 300}, {"count": 40}),),
        (Row("start to begin in a queue, p50", "ms", "lower", "begin_p50_ms", aim=5),),
        (
            Dbos(
                "soon",
                {"limit": 64, "count": 60, "mode": "async"},
                {"count": 20},
                {"polls 50 times a second": {"poll_seconds": 0.02}, "as it comes": {"poll_seconds": 1.0}},
                only_wal=True,
            ),
        ),
    ),
    Case(
        "queue shares",
        "flow",
        (Ours("shares", {"limit": 64, "keys": 10_000, "jobs": 60_000}, {"keys": 1_000, "jobs": 6_000}),),
        (
            Row("10,000 keys, one with half of all jobs: the others' share off by", "%", "lower", "off_by", aim=10),
            Row("the same, the worst of the others", "%", "lower", "worst_off_by"),
        ),
        rounds=1,
    ),
    Case(
        "100,000 in line",
        "flow",
        (Ours("line", {"count": 100_000}, {"count": 10_000}),),
        (
            Row("100,000 wait in a queue: memory", "MB", "lower", "mb"),
            Row("100,000 wait in a queue: until the first begins", "ms", "lower", "first_ms"),
            Row("100,000 wait in a queue: its status", "ms", "lower", "look_ms"),
            Row("100,000 wait in a queue: 100 more begin", "ms", "lower", "admit_100_ms"),
        ),
        rounds=1,
        only_huge=True,
    ),
)
