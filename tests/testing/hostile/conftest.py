"""A proxy in front of DynamoDB Local, and a table behind it."""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from tests.backends.aws.lean import LeanClient
from tests.backends.aws.local import credentials, lean_client, shared_server

from holdfast.testing.hostile import KIND, HostileDynamoDB, Rules

HERE = Path(__file__).parent
NUMBERS = itertools.count()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.path.is_relative_to(HERE) and {"serve", "table", "direct"} & {*getattr(item, "fixturenames", ())}:
            item.add_marker(pytest.mark.aws)


class Served:
    """A proxy, and a client of it."""

    def __init__(self, proxy: HostileDynamoDB) -> None:
        self.proxy = proxy
        self.url = proxy.url
        self.faults = proxy.report.faults
        self._clients: list[LeanClient] = []

    def client(self) -> Any:
        self._clients.append(LeanClient(self.url))
        return self._clients[-1]

    def close(self) -> None:
        for each in self._clients:
            each._connection.close()


@pytest.fixture(scope="session")
def emulator() -> Iterator[str]:
    endpoint = shared_server().endpoint
    with credentials():
        yield endpoint


@pytest.fixture
def serve(emulator: str) -> Iterator[Callable[..., Served]]:
    """``serve(rules)``: a proxy with these rules, and no others."""
    with ExitStack() as stack:

        def start(rules: Rules = KIND, seed: int = 7) -> Served:
            served = Served(stack.enter_context(HostileDynamoDB(emulator, seed=seed, rules=rules)))
            stack.callback(served.close)
            return served

        yield start


@pytest.fixture
def direct(emulator: str) -> Any:
    """A client of the emulator itself."""
    return lean_client()


@pytest.fixture
def table(direct: Any) -> Iterator[str]:
    """A table with an index, as the home has it."""
    name = f"hostile-{os.getpid()}-{next(NUMBERS)}"
    schema = [{"AttributeName": "p", "KeyType": "HASH"}, {"AttributeName": "s", "KeyType": "RANGE"}]
    of_index = [{"AttributeName": "q", "KeyType": "HASH"}, {"AttributeName": "d", "KeyType": "RANGE"}]
    types = {"p": "S", "s": "S", "q": "S", "d": "N"}
    direct.create_table(
        TableName=name,
        BillingMode="PAY_PER_REQUEST",
        AttributeDefinitions=[{"AttributeName": each, "AttributeType": type} for each, type in types.items()],
        KeySchema=schema,
        GlobalSecondaryIndexes=[
            {"IndexName": "due", "KeySchema": of_index, "Projection": {"ProjectionType": "KEYS_ONLY"}}
        ],
    )
    yield name
    direct.delete_table(TableName=name)
