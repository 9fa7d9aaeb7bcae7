"""An emulator of AWS, and a trial that stands in it for the tests of single checks."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Coroutine, Iterator
from typing import Any

import pytest
from tests.infra.ministack import REGION, only_ministack

from holdfast.backends.aws import Meter, parse_address
from holdfast.verify import Finding, Record, standing
from holdfast.verify.bench import Bench
from holdfast.verify.cloud import Cloud
from holdfast.verify.record import new_names

ACCOUNT = "000000000000"


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The home that a user names; it is not there, and never will be."""
    with contextlib.chdir(tmp_path_factory.mktemp("records")), only_ministack(tmp_path_factory) as endpoint:
        yield f"aws://shop?region={REGION}&endpoint={endpoint}"


def begun(url: str) -> Record:
    """A record of a trial that is about to be made."""
    prefix, mark = new_names()
    record = Record(prefix=prefix, mark=mark, account=ACCOUNT, region=REGION, url=url, began="now")
    record.begin()
    return record


@pytest.fixture(scope="module")
def standing_trial(url: str) -> tuple[Record, dict[str, str]]:
    """A trial that stays, and the outputs of its stack."""
    record = begun(url)

    async def build() -> dict[str, str]:
        cloud = Cloud(parse_address(url))
        try:
            return await standing.build(cloud, record)
        finally:
            cloud.close()

    return record, asyncio.run(build())


Ask = Callable[[Callable[[Bench], Coroutine[Any, Any, Finding]]], Finding]


@pytest.fixture
def bench(url: str, standing_trial: tuple[Record, dict[str, str]]) -> Iterator[Bench]:
    """The trial, to be checked."""
    cloud = Cloud(parse_address(url))
    yield Bench(cloud, *standing_trial, Meter())
    cloud.close()
