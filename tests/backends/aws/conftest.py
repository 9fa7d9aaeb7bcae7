"""DynamoDB Local for the tests of this folder, or a loud word that it is missing."""

from __future__ import annotations

import itertools
import os
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest
from tests.backends.aws import hostile
from tests.backends.aws.local import credentials, shared_client
from tests.infra.ministack import ministack
from tests.infra.tools import environment_or_skip

from holdfast.backends.aws import DynamoStore, Objects, S3Blobs, Transport, parse_address
from holdfast.backends.aws.connection import Connection, ThreadedConnection, new_client
from holdfast.backends.aws.table import create_table

HERE = Path(__file__).parent
NUMBERS = itertools.count()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.path.is_relative_to(HERE) and {"dynamodb", "s3"} & {*getattr(item, "fixturenames", ())}:
            item.add_marker(pytest.mark.aws)


@pytest.fixture(scope="session")
def dynamodb() -> Iterator[str]:
    """The address of an emulator, for homes."""
    endpoint = hostile.endpoint()
    with credentials():
        yield endpoint


@pytest.fixture(scope="session")
def s3(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of an emulator of S3."""
    programs = environment_or_skip("ministack")
    with credentials(), ministack(programs, tmp_path_factory.mktemp("ministack")) as endpoint:
        yield endpoint


@pytest.fixture(scope="session")
def s3_client(s3: str) -> Iterator[Any]:
    """A client of S3 that all tests share."""
    client = new_client("eu-west-1", s3, "s3")
    yield client
    client.close()


@pytest.fixture
def bucket(s3_client: Any) -> str:
    """The name of a bucket of its own."""
    name = f"test-{os.getpid()}-{next(NUMBERS)}"
    s3_client.create_bucket(Bucket=name, CreateBucketConfiguration={"LocationConstraint": "eu-west-1"})
    return name


@pytest.fixture
def open_blobs(s3_client: Any, bucket: str) -> Callable[..., S3Blobs]:
    """``open_blobs()``: a place for blobs; through another connection, if one is given."""

    def make(wrap: Callable[[Connection], Any] = lambda connection: connection, **options: Any) -> S3Blobs:
        connection = wrap(ThreadedConnection(None, None, "s3", client=s3_client))
        return S3Blobs(Objects(connection, bucket, random=Random(7), **options), "shop")

    return make


@pytest.fixture(scope="session")
def client(dynamodb: str) -> Any:
    """A client of botocore that all tests share."""
    return shared_client()


@pytest.fixture
def new_url(dynamodb: str, client: Any) -> Callable[[], Awaitable[str]]:
    """``await new_url()``: a home of its own, whose table is there."""

    async def make() -> str:
        url = f"aws://test-{os.getpid()}-{next(NUMBERS)}?region=eu-west-1&endpoint={dynamodb}"
        connection = ThreadedConnection(None, None, client=client)
        await create_table(connection, parse_address(url).table)
        connection.close()
        return url

    return make


@pytest.fixture
def open_store(client: Any, new_url: Callable[[], Awaitable[str]]) -> Callable[..., Awaitable[DynamoStore]]:
    """``await open_store()``: a store with a table of its own; through another connection, if one is given."""

    async def make(wrap: Callable[[Connection], Any] = lambda connection: connection, **options: Any) -> DynamoStore:
        table = parse_address(await new_url()).table
        connection = wrap(hostile.connection(hostile.EXACT))
        transport = Transport(connection, table, random=Random(7))
        return DynamoStore(transport, table, **options)

    return make
