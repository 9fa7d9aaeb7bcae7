"""Measure moto's interpreter of state machines, in process. Runs in the peer's own environment.

    python measure_moto.py BENCH '{"definition": ..., "answers": {...}, ...}'

The interpreter (``execute_state_machine``) keeps all in memory: nothing is synced, and nothing survives the process. It
is called by its backend and not through boto3, and its tasks are mocked by its own mocks: what is left is the
interpreter alone. An execution is a thread; it has ended when the thread has.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import moto.stepfunctions.parser.backend.execution as executions
from moto.stepfunctions.parser.backend.execution_worker import ExecutionWorker
from moto.stepfunctions.parser.mocking.mock_config import MockedResponseReturn, MockTestCase, StateMockedResponses
from moto.stepfunctions.parser.models import StepFunctionsParserBackend, stepfunctions_parser_backends

Params = dict[str, Any]
Values = dict[str, float]

ACCOUNT, REGION = "123456789012", "eu-west-1"
ROLE = f"arn:aws:iam::{ACCOUNT}:role/bench"
STATES_OF_A_TURN = 2
LIMIT_SECONDS = 120
"""What takes longer is ended, and reported as too long."""


class Machine:
    """A state machine at moto, with its tasks mocked."""

    def __init__(self, params: Params) -> None:
        given = params["definition"]
        text = Path(given).read_text(encoding="utf-8") if isinstance(given, str) else json.dumps(given)
        self._backend: StepFunctionsParserBackend = stepfunctions_parser_backends[ACCOUNT][REGION]
        self._arn = self._backend.create_state_machine("bench", text, ROLE).arn
        self._count = 0
        mocks = [_mock(name, answer) for name, answer in params.get("answers", {}).items()]
        executions.ExecutionWorker = partial(ExecutionWorker, mock_test_case=MockTestCase("bench", "bench", mocks))

    def start(self, input: Any) -> Callable[[], Any]:
        """Start an execution; what is answered waits for its end and answers its output."""
        self._count += 1
        before = set(threading.enumerate())
        execution = self._backend.start_execution(self._arn, f"e{self._count}", json.dumps(input))
        started = [each for each in threading.enumerate() if each not in before]
        until = time.monotonic() + LIMIT_SECONDS

        def output() -> Any:
            for thread in started:
                thread.join(max(0.0, until - time.monotonic()))
            if execution.exec_status != "SUCCEEDED":
                sys.exit(f"after {LIMIT_SECONDS} s: {execution.exec_status} {execution.error} {execution.cause}")
            return execution.output

        return output


def _mock(state: str, answer: Any) -> StateMockedResponses:
    invoked = {"StatusCode": 200, "Payload": answer}
    return StateMockedResponses(state, state, [MockedResponseReturn(0, 0, invoked)])


def bench_executions(params: Params) -> Values:
    machine, count, lanes = Machine(params), params["count"], params["concurrency"]
    assert machine.start(params["input"])() == params["output"]
    before, began = time.process_time(), time.perf_counter()
    for first in range(0, count, lanes):
        running = [machine.start(params["input"]) for _ in range(min(lanes, count - first))]
        for output in running:
            assert output() == params["output"]
    took = time.perf_counter() - began
    return {"executions_s": count / took, "cpu_us": (time.process_time() - before) * 1e6 / count}


def bench_items(params: Params) -> Values:
    machine = Machine(params)
    machine.start([1])()
    began = time.perf_counter()
    assert machine.start(list(range(params["count"])))() == [7] * params["count"]
    return {"map_ms": (time.perf_counter() - began) * 1e3}


def bench_loop(params: Params) -> Values:
    machine, turns = Machine(params), params["states"] // STATES_OF_A_TURN
    machine.start({"n": 0, "end": 1})()
    began = time.perf_counter()
    assert machine.start({"n": 0, "end": turns})()["n"] == turns
    return {"states_s": params["states"] / (time.perf_counter() - began)}


def bench_cold(params: Params) -> Values:
    """A fresh interpreter, from its start to the end of its first execution."""
    began = time.time()
    command = [sys.executable, __file__, "first", json.dumps(params)]
    found = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)["values"]
    return {"cold_ms": (found.pop("ready_at") - began) * 1e3, **found}


def bench_first(params: Params) -> Values:
    assert Machine(params).start(params["input"])() == params["output"]
    return {"ready_at": time.time(), "cold_cpu_ms": time.process_time() * 1e3, "cold_modules": len(sys.modules)}


def main() -> None:
    name, params = sys.argv[1], json.loads(sys.argv[2])
    benches = SimpleNamespace(
        executions=bench_executions, items=bench_items, loop=bench_loop, cold=bench_cold, first=bench_first
    )
    print(json.dumps({"values": getattr(benches, name)(params), "notes": {}}), flush=True)
    os._exit(0)  # threads of executions are left


if __name__ == "__main__":
    main()
