"""Measure AWS's durable execution SDK for Python on its own local runner. Runs in the peer's own environment.

    python measure_durable.py BENCH '{"folder": ..., "store": "memory", "kind": "steps", ...}'

There is no service of AWS here. The local runner, which its package for tests brings, plays it: with ``store`` "memory"
and "sqlite" in this process, called like a function, and nothing is synced to the disk (its SQLite has
``synchronous=NORMAL``); with "http" as a server of its own on loopback, that keeps all in memory, and that the SDK's
client of boto3 calls as it would call AWS. Its clock is the real one, not the one that skips waits.

The SDK's thread for checkpoints looks every 100 ms whether its invocation has ended, and the invocation waits for it:
that is in the SDK itself and not in the runner.
"""

from __future__ import annotations

import http.client
import itertools
import json
import logging
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from aws_durable_execution_sdk_python import DurableContext, durable_execution
from aws_durable_execution_sdk_python.config import Duration
from aws_durable_execution_sdk_python.lambda_service import LambdaClient
from aws_durable_execution_sdk_python_testing.client import InMemoryServiceClient
from aws_durable_execution_sdk_python_testing.invoker import create_test_lambda_context
from aws_durable_execution_sdk_python_testing.runner import DurableFunctionTestRunner
from aws_durable_execution_sdk_python_testing.stores.sqlite import SQLiteExecutionStore

Params = dict[str, Any]
Values = dict[str, float | list[float]]
Run = Callable[[str], None]

WARM_UP = 3
STARTS_WITHIN_SECONDS = 60
ENDS_WITHIN_SECONDS = 60
NUMBERS = itertools.count()
MEASURE_COLD = Path(__file__).with_name("measure_cold.py")


# ── The durable functions under test ────────────────────────────────────────────────────────────────────────────────


@durable_execution
def handler(event: dict[str, Any], context: DurableContext) -> int:
    """What the workflows of the same kinds do in ``benchmarks/workload.py``."""
    count = event["count"]
    match event["kind"]:
        case "steps":
            for number in range(count):
                context.step(lambda _, number=number: number, name="step")
            return count
        case "parallel":
            branches = [branch(number) for number in range(count)]
            return len(context.parallel(branches, name="parallel").get_results())
        case "wait":
            context.wait(Duration.from_seconds(count))
            return count
    raise ValueError(event["kind"])


def branch(number: int) -> Callable[[DurableContext], int]:
    return lambda context: context.step(lambda _: number, name="part")


# ── What the service is asked ───────────────────────────────────────────────────────────────────────────────────────


class Counts:
    """How often the SDK asked for a checkpoint, for the state, and how many updates it sent with that."""

    def __init__(self, client: type) -> None:
        self.requests = 0
        self.updates = 0
        checkpoint, state = client.checkpoint, client.get_execution_state

        def counted_checkpoint(own: Any, *args: Any, **kwargs: Any) -> Any:
            self.requests += 1
            self.updates += len(kwargs["updates"])
            return checkpoint(own, *args, **kwargs)

        def counted_state(own: Any, *args: Any, **kwargs: Any) -> Any:
            self.requests += 1
            return state(own, *args, **kwargs)

        client.checkpoint, client.get_execution_state = counted_checkpoint, counted_state


# ── Two ways to run it ──────────────────────────────────────────────────────────────────────────────────────────────


@contextmanager
def in_process(params: Params) -> Iterator[Run]:
    """The runner in this process; answers how to run one execution and wait for its result."""
    store = None
    if params["store"] == "sqlite":
        store = SQLiteExecutionStore.create_and_initialize(str(Path(params["folder"]) / "durable.sqlite"))
    with DurableFunctionTestRunner(handler, skip_time=False, store=store) as runner:

        def run(event: str) -> None:
            result = runner.run(input=event, execution_name=f"run-{next(NUMBERS)}")
            assert result.status.value == "SUCCEEDED", result

        yield run


@contextmanager
def over_http(params: Params) -> Iterator[Run]:  # noqa: ARG001 - one signature for both ways
    """The runner as a server. The clock stops when the handler has ended; the runner's note of it is not awaited."""
    ended = threading.Event()

    class Lambda(BaseHTTPRequestHandler):
        """The one function there is, called as Lambda's API says."""

        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True

        def do_POST(self) -> None:
            event = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            answer = handler(event, create_test_lambda_context())
            body = json.dumps(answer).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)
            if answer["Status"] == "SUCCEEDED":
                ended.set()

        def log_message(self, *_: Any) -> None:
            """Say nothing."""

    class Functions(ThreadingHTTPServer):
        def handle_error(self, *_: Any) -> None:
            """A connection ends when its server is killed, at the end."""

    functions = Functions(("127.0.0.1", 0), Lambda)
    threading.Thread(target=functions.serve_forever, daemon=True).start()
    with runner_server(functions.server_address[1]) as runner:

        def run(event: str) -> None:
            ended.clear()
            post(runner, "/start-durable-execution", started(event))
            assert ended.wait(ENDS_WITHIN_SECONDS)

        yield run


@contextmanager
def runner_server(functions_port: int) -> Iterator[int]:
    """The local runner in a process of its own; answers its port."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    os.environ["AWS_ENDPOINT_URL_LAMBDA"] = f"http://127.0.0.1:{port}"  # where the SDK's client finds its service
    options = ["--host", "127.0.0.1", "--port", str(port), "--lambda-endpoint", f"http://127.0.0.1:{functions_port}"]
    module = [sys.executable, "-m", "aws_durable_execution_sdk_python_testing.cli", "start-server"]
    server = subprocess.Popen([*module, *options, "--log-level", "ERROR"], stderr=subprocess.DEVNULL)
    try:
        give_up_at = time.monotonic() + STARTS_WITHIN_SECONDS
        while True:
            try:
                socket.create_connection(("127.0.0.1", port), 1).close()
                break
            except OSError:
                assert server.poll() is None and time.monotonic() < give_up_at, "the local runner does not answer"
                time.sleep(0.05)
        yield port
    finally:
        server.kill()
        server.wait()


def started(event: str) -> dict[str, Any]:
    return {
        "AccountId": "123456789012",
        "FunctionName": "bench",
        "FunctionQualifier": "$LATEST",
        "ExecutionName": f"run-{next(NUMBERS)}",
        "ExecutionTimeoutSeconds": 300,
        "ExecutionRetentionPeriodDays": 1,
        "Input": event,
    }


def post(port: int, path: str, body: dict[str, Any]) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", port)
    connection.request("POST", path, json.dumps(body), {"Content-Type": "application/json"})
    answer = connection.getresponse()
    told = answer.read()
    assert answer.status < 300, told
    connection.close()


# ── Measuring ───────────────────────────────────────────────────────────────────────────────────────────────────────


def bench_executions(params: Params) -> Values:
    """Executions one after another: how long each takes, less what it waits on purpose, and what it asks for."""
    store, times = params["store"], params["times"]
    one_step = json.dumps({"kind": "steps", "count": 1})
    work = json.dumps({"kind": params["kind"], "count": params["count"]})
    on_purpose_ms = 1e3 * params["count"] if params["kind"] == "wait" else 0
    counts = Counts(LambdaClient if store == "http" else InMemoryServiceClient)

    def ms(event: str) -> float:
        began = time.perf_counter()
        run(event)
        return (time.perf_counter() - began) * 1e3

    with (over_http if store == "http" else in_process)(params) as run:
        for _ in range(WARM_UP):
            run(one_step)
        counts.requests = counts.updates = 0
        took = [ms(work) - on_purpose_ms for _ in range(times)]
        values: Values = {
            f"{store}_p50_ms": percentile(took, 0.5),
            f"{store}_p99_ms": percentile(took, 0.99),
            f"{store}_requests": counts.requests / times,
            f"{store}_updates": counts.updates / times,
        }
        if params["kind"] == "steps" and params["count"] > 1:
            of_one_step = [ms(one_step) for _ in range(times)]
            further = percentile(took, 0.5) - percentile(of_one_step, 0.5)
            values[f"{store}_further_ms"] = further / (params["count"] - 1)
    return values


def bench_cold(params: Params) -> Values:  # noqa: ARG001 - the signature of them all
    """A fresh interpreter: importing a durable function."""
    command = [sys.executable, str(MEASURE_COLD), "cold_durable"]
    return json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)


def percentile(values: list[float], share: float) -> float:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))]


def main() -> None:
    name, params = sys.argv[1], json.loads(sys.argv[2])
    logging.disable(logging.CRITICAL)
    benches = SimpleNamespace(executions=bench_executions, cold=bench_cold)
    print(json.dumps({"values": getattr(benches, name)(params), "notes": {}}), flush=True)
    os._exit(0)  # threads of the runner are left


if __name__ == "__main__":
    main()
