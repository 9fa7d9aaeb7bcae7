"""The store keeps its contract on another stand-in for DynamoDB too, so that none of the two is taken for the truth.

ministack differs from DynamoDB Local in the kind of refusal for operands of a wrong type, in what UPDATED_NEW answers,
and in whether a descending query that ends at its limit says so; the store does none of these: nothing is excused here.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from random import Random
from typing import Any

import pytest
from tests.backends.aws.test_dynamodb import OnDynamoDB
from tests.backends.aws.world import NUMBERS

from holdfast.backends.aws import DynamoStore, Transport
from holdfast.backends.aws.connection import ThreadedConnection, new_client
from holdfast.backends.aws.table import create_table
from holdfast.testing.conformance import StoreConformance

OpenStore = Callable[..., Awaitable[DynamoStore]]


@pytest.fixture(scope="module")
def ministack_client(s3: str) -> Iterator[Any]:
    client = new_client("eu-west-1", s3)
    yield client
    client.close()


@pytest.fixture
def open_store(ministack_client: Any) -> OpenStore:
    async def make(**options: Any) -> DynamoStore:
        connection = ThreadedConnection(None, None, client=ministack_client)
        table = f"conformance-{next(NUMBERS)}"
        await create_table(connection, table)
        return DynamoStore(Transport(connection, table, random=Random(7)), table, **options)

    return make


class TestDynamoStoreOnMinistack(OnDynamoDB, StoreConformance):
    histories = 3
