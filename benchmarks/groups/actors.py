"""Actors: calls on one key and on many, sends, events, timers of many actors at once."""

from __future__ import annotations

import asyncio
import statistics
import time
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import holdfast as hf
from benchmarks import bare
from benchmarks.groups.throughput import BARE
from benchmarks.plan import Case, Ours, Params, Restate, Row
from benchmarks.workload import percentile

WARM_UP = 50


@dataclass
class Placed:
    """An event."""

    number: int


class Actors:
    """An app with a counter, and a consumer that counts."""

    def __init__(self, folder: str) -> None:
        app = self.app = hf.App("bench", home=f"sqlite:///{Path(folder) / 'bench.db'}")
        self.late: list[float] = []
        self.handled = self.applied = 0
        late = self.late

        class Counter(hf.Actor, app=app, mailbox=1_000_000):
            count: int = 0

            async def add(self) -> int:
                self.count += 1
                return self.count

            async def hit(_actor) -> None:  # noqa: N805 - the outer self is the one that counts
                _actor.count += 1
                self.applied += 1

            async def arm(self, seconds: float) -> None:
                due = datetime.now(UTC) + timedelta(seconds=seconds)
                self.ring.at(due, due.timestamp())

            @hf.timer
            async def ring(self, due: float) -> None:
                late.append(time.time() - due)

            async def fan_out(self, keys: int) -> None:
                for key in range(keys):
                    await hf.send(Counter.at(str(key)).hit)

            async def announce(self, events: int) -> None:
                for number in range(events):
                    await app.publish(Placed(number))

        @app.consumer(Placed)
        async def count(_event: Placed) -> None:
            self.handled += 1

        self.counter = Counter

    async def call_often(self, callers: int, keys: int, each: int) -> float:
        """Calls per second, by so many callers at once."""
        at = [self.counter.at(str(key)) for key in range(keys)]

        async def caller(number: int) -> None:
            for call in range(each):
                await at[(number + call * callers) % keys].add()

        began = time.perf_counter()
        await asyncio.gather(*(caller(number) for number in range(callers)))
        return callers * each / (time.perf_counter() - began)


async def calls(params: Params) -> Any:
    """Calls at once on one key, and on many."""
    it = Actors(params["folder"])
    async with it.app.worker():
        await it.call_often(64, 1, 20)
        one = await it.call_often(64, 1, params["each"])
        await it.call_often(64, 1_000, 40)  # every key is warm
        many = await it.call_often(64, 1_000, params["each"])
        took: list[float] = []
        for _ in range(WARM_UP + params["alone"]):
            began = time.perf_counter()
            await it.counter.at("alone").add()
            took.append((time.perf_counter() - began) * 1e3)
    warm = took[WARM_UP:]
    return {"one": one, "many": many, "p50_ms": percentile(warm, 0.5), "p99_ms": percentile(warm, 0.99)}, {}


async def messages(params: Params) -> Any:
    """Messages from outside to 1,000 actors, until all are applied; from an actor; and events to a consumer."""
    it = Actors(params["folder"])
    async with it.app.worker():
        began = time.perf_counter()
        await asyncio.gather(*(hf.send(it.counter.at(str(n % 1_000)).hit) for n in range(params["count"])))
        sent = params["count"] / (time.perf_counter() - began)
        await _drained(it, params["count"])
        applied = params["count"] / (time.perf_counter() - began)
        began = time.perf_counter()
        await asyncio.gather(*(it.counter.at(f"from{n}").fan_out(100) for n in range(params["count"] // 100)))
        await _drained(it, 2 * params["count"])
        inside = params["count"] / (time.perf_counter() - began)
        began = time.perf_counter()
        await asyncio.gather(*(it.counter.at(f"from{n}").announce(100) for n in range(params["count"] // 100)))
        while it.handled < params["count"] // 100 * 100:
            await asyncio.sleep(0.001)
        events = params["count"] / (time.perf_counter() - began)
    return {"sent": sent, "applied": applied, "inside": inside, "events": events}, {}


async def _drained(it: Actors, count: int) -> None:
    """Wait until so many messages are applied."""
    while it.applied < count:
        await asyncio.sleep(0.001)


async def timers(params: Params) -> Any:
    """Actors with a timer each, all due at once; by how much each fired late."""
    it = Actors(params["folder"])
    async with it.app.worker():
        await it.counter.at("warm").arm(0.01)
        for _ in range(params["times"]):
            await asyncio.gather(*(it.counter.at(str(key)).arm(params["seconds"]) for key in range(params["count"])))
            want = len(it.late) + params["count"]
            while len(it.late) < want:
                await asyncio.sleep(0.005)
    assert min(it.late) >= 0, f"a timer fired {-min(it.late)} s early (G8)"
    return {"late_ms": statistics.median(it.late) * 1e3, "latest_ms": max(it.late) * 1e3}, {}


STATE_BYTES = 120
"""A counter's head, and a message to it, have about so many."""


async def bare_calls(params: Params) -> Any:
    """The states of so many calls in a bare loop."""
    return {"bare": bare.calls(params["folder"], bytes(STATE_BYTES), 64, 1_000, 64 * params["each"])}, {}


async def bare_messages(params: Params) -> Any:
    """The messages, and the states of their receivers, in a bare loop."""
    sent, applied = bare.sends(params["folder"], bytes(STATE_BYTES), 1_000, params["count"])
    return {"bare_sent": sent, "bare_applied": applied}, {}


def _timer_case(name: str, count: int, times: int, aim: float) -> Case:
    return Case(
        f"actor-timers-{count}",
        "actors",
        (Ours("timers", {"count": count, "times": times, "seconds": 1.0}, {"times": 1, "seconds": 0.5}),),
        (
            Row(f"{name}, median", "ms late", "lower", "late_ms", aim=aim),
            Row(f"{name}, the latest", "ms late", "lower", "latest_ms"),
        ),
    )


CASES = (
    Case(
        "actor-calls",
        "actors",
        (
            Ours("calls", {"each": 400, "alone": 2_000}, {"each": 40, "alone": 200}),
            Ours("bare_calls", {"each": 400}, {"each": 40}),
        ),
        (
            Row("calls of one actor, 64 at a time", "calls/s", "higher", "one", aim=20_000),
            Row("calls of 1,000 actors, 64 at a time", "calls/s", "higher", "many", aim=20_000),
            Row(f"calls of 1,000 actors, next to {BARE}", "×", "higher", "many", over="bare", peer_metric=""),
            Row("call of an actor, p50", "ms", "lower", "p50_ms", aim=0.5),
            Row("call of an actor, p99", "ms", "lower", "p99_ms", aim=2),
        ),
        (Restate("actor_calls", {"seconds": 2.5, "alone": 300}, {"seconds": 0.5, "alone": 50}),),
    ),
    Case(
        "messages",
        "actors",
        (
            Ours("messages", {"count": 10_000}, {"count": 1_000}),
            Ours("bare_messages", {"count": 10_000}, {"count": 1_000}),
        ),
        (
            Row("sends from outside to 1,000 actors, accepted", "messages/s", "higher", "sent", aim=20_000),
            Row("the same, applied", "messages/s", "higher", "applied", aim=10_000),
            Row(f"sends accepted, next to {BARE}", "×", "higher", "sent", over="bare_sent", peer_metric=""),
            Row(f"sends applied, next to {BARE}", "×", "higher", "applied", over="bare_applied", peer_metric=""),
            Row("sends from actors to 100 actors, applied", "messages/s", "higher", "inside", aim=10_000),
            Row("events of 100 actors, handled by a consumer", "events/s", "higher", "events"),
        ),
        (Restate("messages", {"count": 3_000}, {"count": 300}),),
    ),
    _timer_case("an actor's timer of 1 s", 1, 5, 2),
    _timer_case("1,000 actors' timers of 1 s at once", 1_000, 1, 5),
)
