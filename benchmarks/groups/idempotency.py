"""Idempotent handlers: fresh calls and repeats per second, beside Powertools' decorator on a dictionary.

Its own stores are DynamoDB and Redis; a dictionary is the fastest that it could have. Ours is the memory home there,
and a file, with ``fsync``, in the other rows. Calls of functions that are not async cross to the app's loop and back.
"""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import Any

import holdfast as hf
from benchmarks.plan import Case, Ours, Params, Row

WARM_UP = 50


def _open(params: Params) -> hf.App:
    home = "memory://" if params["home"] == "memory" else f"sqlite:///{Path(params['folder']) / 'bench.db'}"
    return hf.App("bench", home=home)


async def from_async(params: Params) -> Any:
    """An async handler, ``concurrency`` calls at a time."""
    app = _open(params)
    lanes, count = params["concurrency"], params["count"]

    @app.idempotent(key="order.id")
    async def charge(order: dict[str, Any]) -> dict[str, Any]:
        return {"paid": order["cents"]}

    async def lane(number: int, first: int, last: int) -> None:
        for each in range(first, last):
            await charge({"id": f"{number}-{each}", "cents": each})

    async def rate(first: int, last: int) -> float:
        began = time.perf_counter()
        await asyncio.gather(*(lane(number, first, last) for number in range(lanes)))
        return lanes * (last - first) / (time.perf_counter() - began)

    async with app:
        warm, end = WARM_UP // lanes + 1, WARM_UP // lanes + 1 + count // lanes
        await rate(0, warm)
        fresh = await rate(warm, end)
        repeats = await rate(warm, end)
    name = f"{params['home']}_{lanes}"
    return {f"{name}_fresh": fresh, f"{name}_repeats": repeats}, {}


class Context:
    """The part of AWS Lambda's context that Powertools asks for."""

    function_name = "bench"

    def get_remaining_time_in_millis(self) -> int:
        """Half a minute, always."""
        return 30_000


def _rates(name: str, handler: Any, count: int) -> dict[str, float]:
    context = Context()

    def rate(first: int, last: int) -> float:
        began = time.perf_counter()
        for each in range(first, last):
            handler({"id": f"o-{each}", "cents": each}, context)
        return (last - first) / (time.perf_counter() - began)

    rate(0, WARM_UP)
    fresh = rate(WARM_UP, WARM_UP + count)
    return {f"{name}_fresh": fresh, f"{name}_repeats": rate(WARM_UP, WARM_UP + count)}


def _charge(event: dict[str, Any], context: Any) -> dict[str, Any]:  # noqa: ARG001 - the signature of a Lambda handler
    return {"paid": event["cents"]}


async def from_sync(params: Params) -> Any:
    """A handler that is not async, called in a thread of its own; by our decorator, and by Powertools' on our layer."""
    from aws_lambda_powertools.utilities.idempotency import IdempotencyConfig, idempotent

    from holdfast.compat.powertools import HoldfastPersistence

    app = _open(params)
    ours = app.idempotent(key="event.id", name="ours")(_charge)
    config = IdempotencyConfig(event_key_jmespath="id")
    theirs = idempotent(persistence_store=HoldfastPersistence(app), config=config)(_charge)

    def measure() -> dict[str, float]:
        with app.sync():
            return _rates("sync", ours, params["count"]) | _rates("layer", theirs, params["count"])

    return await asyncio.get_running_loop().run_in_executor(None, measure), {}


async def powertools(params: Params) -> Any:
    """Powertools' decorator on a dictionary: its own code, and no store to wait for."""
    from aws_lambda_powertools.utilities.idempotency import IdempotencyConfig, idempotent
    from aws_lambda_powertools.utilities.idempotency.exceptions import IdempotencyItemAlreadyExistsError
    from aws_lambda_powertools.utilities.idempotency.persistence.base import BasePersistenceLayer

    class Dictionary(BasePersistenceLayer):
        def __init__(self) -> None:
            super().__init__()
            self.records: dict[str, Any] = {}

        def _get_record(self, idempotency_key: str) -> Any:
            return self.records[idempotency_key]

        def _put_record(self, data_record: Any) -> None:
            there = self.records.setdefault(data_record.idempotency_key, data_record)
            if there is not data_record:
                raise IdempotencyItemAlreadyExistsError(old_data_record=there)

        def _update_record(self, data_record: Any) -> None:
            self.records[data_record.idempotency_key] = data_record

        def _delete_record(self, data_record: Any) -> None:
            del self.records[data_record.idempotency_key]

    handler = idempotent(persistence_store=Dictionary(), config=IdempotencyConfig(event_key_jmespath="id"))(_charge)
    return _rates("powertools", handler, params["count"]), {}


COUNT = {"count": 10_000}
QUICK = {"count": 500}


def _async(home: str, concurrency: int) -> Ours:
    return Ours("from_async", {**COUNT, "home": home, "concurrency": concurrency}, QUICK)


CASES = (
    Case(
        "idempotency",
        "idempotency",
        (
            _async("sqlite", 64),
            _async("sqlite", 1),
            _async("memory", 1),
            Ours("from_sync", {**COUNT, "home": "memory"}, QUICK),
            Ours("powertools", COUNT, QUICK),
        ),
        (
            Row("idempotent calls, 64 at a time", "/s", "higher", "sqlite_64_fresh"),
            Row("repeats of them, 64 at a time", "/s", "higher", "sqlite_64_repeats"),
            Row("idempotent calls, one at a time", "/s", "higher", "sqlite_1_fresh"),
            Row("repeats of them, one at a time", "/s", "higher", "sqlite_1_repeats"),
            Row("idempotent calls in memory", "/s", "higher", "memory_1_fresh"),
            Row("repeats of them in memory", "/s", "higher", "memory_1_repeats"),
            Row("the same by a handler that is not async", "/s", "higher", "sync_fresh"),
            Row("its repeats", "/s", "higher", "sync_repeats"),
            Row("the same by Powertools' decorator on our layer", "/s", "higher", "layer_fresh"),
            Row("its repeats on our layer", "/s", "higher", "layer_repeats"),
            Row("the same by Powertools' decorator on a dictionary", "/s", "higher", "powertools_fresh"),
            Row("its repeats on a dictionary", "/s", "higher", "powertools_repeats"),
        ),
    ),
)
