"""Measure Powertools' idempotency on DynamoDB Local. Runs in the peer's own environment, never in ours.

    python measure_powertools.py BENCH '{"endpoint": ..., "count": ..., "concurrency": ...}'

The decorator, its layer for DynamoDB and its settings are those of its documentation's first example; the client of
boto3 has a connection for each thread. Its decorator for async functions does not exist, so many at once are threads.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import boto3
from aws_lambda_powertools.utilities.idempotency import DynamoDBPersistenceLayer, IdempotencyConfig, idempotent
from botocore.config import Config

Params = dict[str, Any]
Values = dict[str, float | list[float]]

WARM_UP = 50
COUNTED = 100
MEASURE_COLD = Path(__file__).with_name("measure_cold.py")


class Context:
    """The part of AWS Lambda's context that Powertools asks for."""

    function_name = "bench"

    def get_remaining_time_in_millis(self) -> int:
        """Half a minute, always."""
        return 30_000


def charge(event: dict[str, Any], context: Any) -> dict[str, Any]:  # noqa: ARG001 - the signature of a Lambda handler
    return {"paid": event["cents"]}


class Requests:
    """What leaves for DynamoDB, as botocore sends it, and the write units that the answers tell of."""

    def __init__(self, client: Any) -> None:
        self.sent = 0
        self.write_units = 0.0
        events = client.meta.events
        events.register("before-send.dynamodb", self._before_send)
        events.register("provide-client-params.dynamodb", self._ask_for_units)
        events.register("after-call.dynamodb", self._after_call)

    def _before_send(self, **_: Any) -> None:
        self.sent += 1

    def _ask_for_units(self, params: dict[str, Any], **_: Any) -> dict[str, Any]:
        return {**params, "ReturnConsumedCapacity": "TOTAL"}

    def _after_call(self, parsed: dict[str, Any], **_: Any) -> None:
        self.write_units += parsed.get("ConsumedCapacity", {}).get("CapacityUnits", 0)


def open_handler(params: Params, threads: int, table: str) -> tuple[Any, Any]:
    """The idempotent handler and the client under it, on a table of their own."""
    config = Config(max_pool_connections=max(10, threads))
    client = boto3.client("dynamodb", endpoint_url=params["endpoint"], config=config)
    create_table(client, table)
    layer = DynamoDBPersistenceLayer(table_name=table, boto3_client=client)
    return idempotent(persistence_store=layer, config=IdempotencyConfig(event_key_jmespath="id"))(charge), client


def create_table(client: Any, table: str) -> None:
    client.create_table(
        TableName=table,
        KeySchema=[{"AttributeName": "id", "KeyType": "HASH"}],
        AttributeDefinitions=[{"AttributeName": "id", "AttributeType": "S"}],
        BillingMode="PAY_PER_REQUEST",
    )


def bench_idempotent(params: Params) -> Values:
    """Fresh calls per second, then repeats of them, ``concurrency`` threads; then, counted apart, what they send."""
    threads, count, context = params["concurrency"], params["count"], Context()
    handler, client = open_handler(params, threads, f"powertools-{os.getpid()}")

    def call(number: int) -> None:
        assert handler({"id": f"o-{number}", "cents": number}, context) == {"paid": number}

    def rate(first: int, last: int) -> tuple[float, float]:
        began, worked = time.perf_counter(), time.process_time()
        if threads == 1:
            for number in range(first, last):
                call(number)
        else:
            list(pool.map(call, range(first, last)))
        took, cpu = time.perf_counter() - began, time.process_time() - worked
        return (last - first) / took, cpu * 1e3 / (last - first)

    values: Values = {}
    with ThreadPoolExecutor(threads) as pool:
        rate(0, WARM_UP)
        for what in ("fresh", "repeats"):
            name = f"{threads}_{what}"
            values[name], values[f"{name}_cpu_ms"] = rate(WARM_UP, WARM_UP + count)
    requests = Requests(client)
    for what in ("fresh", "repeat"):
        requests.sent, requests.write_units = 0, 0.0
        for number in range(-COUNTED, 0):
            call(number)
        values[f"{what}_requests"] = requests.sent / COUNTED
        if what == "fresh":  # a refusal tells no units
            values["fresh_units"] = requests.write_units / COUNTED
    return values


def bench_cold(params: Params) -> Values:
    """A fresh interpreter: importing a handler, and its first call."""
    table = f"powertools-cold-{os.getpid()}"
    create_table(boto3.client("dynamodb", endpoint_url=params["endpoint"]), table)
    environment = {**os.environ, "AWS_ENDPOINT_URL_DYNAMODB": params["endpoint"], "BENCH_TABLE": table}
    command = [sys.executable, str(MEASURE_COLD), "cold_powertools"]
    answer = subprocess.run(command, check=True, stdout=subprocess.PIPE, env=environment)
    return json.loads(answer.stdout)


def main() -> None:
    name, params = sys.argv[1], json.loads(sys.argv[2])
    benches = SimpleNamespace(idempotent=bench_idempotent, cold=bench_cold)
    print(json.dumps({"values": getattr(benches, name)(params), "notes": {"boto3": boto3.__version__}}), flush=True)
    os._exit(0)


if __name__ == "__main__":
    main()
