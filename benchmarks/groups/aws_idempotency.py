"""Idempotent calls beside Powertools' decorator, each with its own layer on the same DynamoDB Local.

The clients are the same botocore; the emulator is most of each call. So the requests and write units are what carries
over to AWS, and the processor time, of the calling process alone. Many calls at once are threads at Powertools, and
coroutines of an async handler of ours.
"""

from __future__ import annotations

import asyncio
import time
from typing import Any

import holdfast as hf
from benchmarks.emulator import new_home
from benchmarks.groups.idempotency import Context
from benchmarks.plan import Case, Ours, Params, Powertools, Row

WARM_UP = 50
COUNTED = 100


def _charge(event: dict[str, Any], context: Any) -> dict[str, Any]:  # noqa: ARG001 - the signature of a Lambda handler
    return {"paid": event["cents"]}


async def from_sync(params: Params) -> Any:
    """A handler that is not async, called in a thread of its own: by our decorator, or by Powertools' on our layer."""
    app = hf.App("bench", home=await new_home(params["endpoint"]))
    handler, name, count, context = _decorated(app, params["by"]), params["by"], params["count"], Context()

    def calls(first: int, last: int) -> tuple[float, float]:
        began, worked = time.perf_counter(), time.process_time()
        for each in range(first, last):
            assert handler({"id": f"o-{each}", "cents": each}, context) == {"paid": each}
        took, cpu = time.perf_counter() - began, time.process_time() - worked
        return (last - first) / took, cpu * 1e3 / (last - first)

    def measure() -> dict[str, float]:
        values: dict[str, float] = {}
        with app.sync():
            calls(0, WARM_UP)
            for what in ("fresh", "repeats"):
                values[f"{name}_{what}"], values[f"{name}_{what}_cpu_ms"] = calls(WARM_UP, WARM_UP + count)
            meter = app.runtime().home.store.meter
            for what in ("fresh", "repeat"):
                meter.reset()
                calls(-COUNTED, 0)
                values[f"{name}_{what}_requests"] = meter.total.requests / COUNTED
                values[f"{name}_{what}_units"] = meter.total.write_units / COUNTED
            return values

    return await asyncio.get_running_loop().run_in_executor(None, measure), {}


def _decorated(app: hf.App, by: str) -> Any:
    if by == "ours":
        return app.idempotent(key="event.id")(_charge)
    from aws_lambda_powertools.utilities.idempotency import IdempotencyConfig, idempotent

    from holdfast.compat.powertools import HoldfastPersistence

    return idempotent(persistence_store=HoldfastPersistence(app), config=IdempotencyConfig(event_key_jmespath="id"))(
        _charge
    )


async def from_async(params: Params) -> Any:
    """An async handler, ``concurrency`` calls at a time."""
    app = hf.App("bench", home=await new_home(params["endpoint"]))
    lanes, count = params["concurrency"], params["count"]

    @app.idempotent(key="event.id")
    async def charge(event: dict[str, Any]) -> dict[str, Any]:
        return {"paid": event["cents"]}

    async def rate(first: int, last: int) -> float:
        left = iter(range(first, last))

        async def lane() -> None:
            for each in left:
                assert await charge({"id": f"o-{each}", "cents": each}) == {"paid": each}

        began = time.perf_counter()
        await asyncio.gather(*(lane() for _ in range(lanes)))
        return (last - first) / (time.perf_counter() - began)

    async with app:
        await rate(0, WARM_UP)
        fresh = await rate(WARM_UP, WARM_UP + count)
        repeats = await rate(WARM_UP, WARM_UP + count)
    return {f"{lanes}_fresh": fresh, f"{lanes}_repeats": repeats}, {}


def _row(name: str, unit: str, metric: str, at_peer: str) -> Row:
    return Row(name, unit, "higher" if unit == "/s" else "lower", metric, peer_metric=at_peer)


QUICK = {"count": 50}

CASES = (
    Case(
        "aws-idempotency",
        "aws_idempotency",
        (
            Ours("from_sync", {"by": "ours", "count": 400}, QUICK),
            Ours("from_sync", {"by": "layer", "count": 400}, QUICK),
            Ours("from_async", {"concurrency": 16, "count": 1_000}, QUICK),
        ),
        (
            _row("idempotent calls on DynamoDB Local", "/s", "ours_fresh", "1_fresh"),
            _row("repeats of them on DynamoDB Local", "/s", "ours_repeats", "1_repeats"),
            _row("by Powertools' decorator on our layer there", "/s", "layer_fresh", "1_fresh"),
            _row("its repeats there", "/s", "layer_repeats", "1_repeats"),
            _row("idempotent calls there, 16 at a time", "/s", "16_fresh", "16_fresh"),
            _row("repeats of them there, 16 at a time", "/s", "16_repeats", "16_repeats"),
            _row("processor time of a call", "ms", "ours_fresh_cpu_ms", "1_fresh_cpu_ms"),
            _row("processor time of a repeat", "ms", "ours_repeats_cpu_ms", "1_repeats_cpu_ms"),
            _row("requests of a call", "requests", "ours_fresh_requests", "fresh_requests"),
            _row("write units of a call", "units", "ours_fresh_units", "fresh_units"),
            _row("requests of a repeat", "requests", "ours_repeat_requests", "repeat_requests"),
            _row("requests of a call by our layer", "requests", "layer_fresh_requests", "fresh_requests"),
            _row("requests of a repeat by our layer", "requests", "layer_repeat_requests", "repeat_requests"),
        ),
        (
            Powertools("idempotent", {"concurrency": 1, "count": 400}, QUICK),
            Powertools("idempotent", {"concurrency": 16, "count": 1_000}, QUICK),
        ),
        rounds=5,
        emulator=True,
    ),
)
