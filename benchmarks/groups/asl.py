"""State machines: the checkout of the examples with mocked tasks, a Map, a loop, and what a checkout costs."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from examples.checkout_machine.machine import DEFINITION

import holdfast as hf
from benchmarks.plan import Case, Moto, Ours, Params, Row
from benchmarks.workload import LANE_WARM_UP, Workload, in_lanes, rss_mb
from holdfast.asl.targets import Mock
from holdfast.cli.asl.cost import compared
from holdfast.cli.asl.given import Given

COLD = Path(__file__).parents[1] / "peers" / "cold_machine.py"

ORDER = {"id": "o-1", "cents": 1_990, "items": [{"sku": "lamp", "count": 1}]}
ANSWERS = {"Reserve one": 1, "Charge": "payment", "Ship": "parcel", "Give back": None}

LAMBDA = "arn:aws:lambda:eu-west-1:123456789012:function:work"
MAP = {
    "StartAt": "Each",
    "States": {
        "Each": {
            "Type": "Map",
            "ItemProcessor": {
                "StartAt": "Work",
                "States": {"Work": {"Type": "Task", "Resource": LAMBDA, "End": True}},
            },
            "End": True,
        }
    },
}
LOOP = {
    "StartAt": "Count",
    "States": {
        "Count": {
            "Type": "Pass",
            "Parameters": {"n.$": "States.MathAdd($.n, 1)", "end.$": "$.end"},
            "Next": "Again?",
        },
        "Again?": {
            "Type": "Choice",
            "Choices": [{"Variable": "$.n", "NumericLessThanPath": "$.end", "Next": "Count"}],
            "Default": "Done",
        },
        "Done": {"Type": "Succeed"},
    },
}
STATES_OF_A_TURN = 2


async def checkouts(params: Params) -> Any:
    """Run checkouts to their end, ``concurrency`` at a time, on a file; also the processor time of one."""
    it, lanes, count = Workload(params["folder"]), params["concurrency"], params["count"]
    machine = _checkout(it)

    async def sell(number: int) -> None:
        answer = await machine({**ORDER, "id": f"o-{number}"})
        assert answer == {"parcel": "parcel"}, answer

    async with it.worker():
        await in_lanes(sell, range(lanes * LANE_WARM_UP), lanes)
        before = time.process_time()
        took = await in_lanes(sell, range(count), lanes)
        cpu_us = (time.process_time() - before) * 1e6 / count
        await it.check_completed(machine.workflow, lanes * LANE_WARM_UP + count)
    return {"executions_s": count / took, "cpu_us": cpu_us}, it.settings


async def items(params: Params) -> Any:
    """A Map with a task for each of its items, alone on a file."""
    it, count = Workload(params["folder"]), params["count"]
    machine = it.app.state_machine("each", MAP, tasks={"Work": _answering(7)})
    async with it.worker():
        await machine([1])
        began = time.perf_counter()
        assert await machine(list(range(count))) == [7] * count
        return {"map_ms": (time.perf_counter() - began) * 1e3}, it.settings


async def loop(params: Params) -> Any:
    """A machine that enters a number of states one after the other, and so continues as new time and again."""
    it, turns = Workload(params["folder"]), params["states"] // STATES_OF_A_TURN
    machine = it.app.state_machine("loop", LOOP)
    async with it.worker():
        await machine({"n": 0, "end": 1})
        began = time.perf_counter()
        assert (await machine({"n": 0, "end": turns}))["n"] == turns
        return {"states_s": params["states"] / (time.perf_counter() - began), "loop_rss_mb": rss_mb()}, it.settings


def cold(params: Params) -> Any:
    """A process that declares the checkout and runs it once, from its start to the end of the execution."""
    began = time.time()
    command = [sys.executable, str(COLD), params["folder"]]
    values = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)
    return {"cold_ms": (values.pop("ready_at") - began) * 1e3, **values}, {}


def cost(_params: Params) -> Any:
    """What a checkout is billed, as ``holdfast asl cost`` meters it: counts and list prices, nothing timed."""
    mocks = {name: {"Return": answer} for name, answer in ANSWERS.items()}
    found = compared(Given(DEFINITION, None, {}), json.dumps(ORDER), json.dumps(mocks))
    assert found.ended.status == "SUCCEEDED"
    values = {
        "requests": found.used.usage.requests / found.used.runs,
        "usd": float(found.ours.usd_per_million),
        "listed_usd": float(found.theirs.usd_per_million),
    }
    return values, {}


def _checkout(it: Workload) -> hf.asl.StateMachine:
    tasks = {name: _answering(answer) for name, answer in ANSWERS.items()}
    return it.app.state_machine("checkout", DEFINITION, tasks=tasks)


def _answering(answer: Any) -> Mock:
    async def work(_given: Any) -> Any:
        return answer

    return Mock(work)


_AT_MOTO = {"definition": str(DEFINITION), "input": ORDER, "answers": ANSWERS, "output": {"parcel": "parcel"}}
_MAP_AT_MOTO = {"definition": MAP, "answers": {"Work": 7}, "count": 1_000}
_LOOP_AT_MOTO = {"definition": LOOP, "states": 1_000}

CASES = (
    Case(
        "asl-checkouts",
        "asl",
        (Ours("checkouts", {"concurrency": 64, "count": 5_000}, {"count": 500}),),
        (
            Row("state machine of a checkout, 64 at a time", "executions/s", "higher", "executions_s", aim=1_000),
            Row("processor time of one", "µs", "lower", "cpu_us"),
        ),
        (Moto("executions", {**_AT_MOTO, "concurrency": 64, "count": 64}, {"count": 8}),),
    ),
    Case(
        "asl-cold",
        "asl",
        (Ours("cold"),),
        (
            Row("process start to first state machine done", "ms", "lower", "cold_ms"),
            Row("processor time until then", "ms", "lower", "cold_cpu_ms"),
            Row("modules then", "modules", "lower", "cold_modules"),
        ),
        (Moto("cold", _AT_MOTO),),
        rounds=5,
    ),
    Case(
        "asl-map",
        "asl",
        (Ours("items", {"count": 1_000}, {"count": 100}),),
        (Row("Map of 1,000 items, a task each", "ms", "lower", "map_ms"),),
        (Moto("items", _MAP_AT_MOTO, {"count": 100}),),
        peer_rounds=1,
    ),
    Case(
        "asl-loop",
        "asl",
        (Ours("loop", {"states": 100_000}, {"states": 12_000}),),
        (
            Row("loop of 100,000 states (Moto: of 1,000)", "states/s", "higher", "states_s"),
            Row("memory after it", "MB", "lower", "loop_rss_mb", peer_metric=""),
        ),
        (Moto("loop", _LOOP_AT_MOTO, {"states": 200}),),
        peer_rounds=1,
    ),
    Case(
        "asl-cost",
        "asl",
        (Ours("cost"),),
        (
            Row("requests of the store for a checkout", "requests", "lower", "requests"),
            Row("a million checkouts on AWS", "$", "lower", "usd"),
            Row("the same on Step Functions, list price", "$", "lower", "listed_usd"),
            Row("list price over ours", "×", "higher", "listed_usd", over="usd"),
        ),
        rounds=1,
    ),
)
