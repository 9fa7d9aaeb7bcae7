"""Metrics of functions and of workers: what is written into the log, when, and what of it is the store's own count."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from random import Random
from typing import Any

import pytest
from msgspec.structs import replace
from tests.backends.aws.cloud import Cloud, Refusal
from tests.test_metrics import Clock, metrics_of

import holdfast as hf
from holdfast.backends.aws import open_aws_home
from holdfast.backends.aws.connection import ThreadedConnection
from holdfast.backends.memory import MemoryData, open_memory_home
from holdfast.items import Item, Put
from holdfast.metrics import STATES, UNITS
from holdfast.ports import Home
from holdfast.testing.virtual_time import run_virtual
from holdfast.watched import Metered, Used

pytestmark = pytest.mark.gentle("it counts requests and units")

Story = Callable[[Cloud], Awaitable[None]]


def build(app: hf.App) -> None:
    @app.workflow
    async def nap(seconds: int) -> str:
        await hf.sleep(seconds)
        return "rested"


def in_the_cloud(story: Story) -> None:
    """Run a story on a store in memory whose use is counted by its reads of what is due."""
    data = MemoryData()

    async def open_store(owner: str) -> Home:
        return replace(open_memory_home(data=data, owner=owner), metered=Metered("Holdfast/test", Used))

    async def main() -> None:
        async with Cloud(open_store, build) as cloud:
            await story(cloud)

    run_virtual(main)


def lines(capsys: pytest.CaptureFixture[str]) -> list[dict[str, float]]:
    return [metrics_of(line) for line in capsys.readouterr().out.splitlines()]


def test_each_sweep_writes_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    async def story(cloud: Cloud) -> None:
        await cloud.invoke({"holdfast": "start", "workflow": "nap", "id": "n", "input": [3600]})
        assert lines(capsys) == []
        cloud.begin_sweeping()
        await asyncio.sleep(5.5 * 60)
        told = lines(capsys)
        assert [each["OldestDueSeconds"] for each in told] == [0.0] * 5
        assert all(each.keys() == UNITS.keys() for each in told)

    in_the_cloud(story)


def test_what_nobody_takes_is_told_to_be_late(capsys: pytest.CaptureFixture[str]) -> None:
    """The metric of the alarm ``Late``: a head of code that is not here."""

    async def story(cloud: Cloud) -> None:
        handler = cloud.environment()
        await cloud.invoke({"holdfast": "sweep"}, handler)
        assert handler._worker is not None
        await handler._worker.host.home.store.write(Put(Item("wf#gone#1", due_at=cloud.clock.now_ms())))
        for _ in range(3):
            await asyncio.sleep(60)
            await cloud.invoke({"holdfast": "sweep"}, handler)
        told = [(each["OldestDueSeconds"], each["DueHeads"]) for each in lines(capsys)]
        assert told == [(0.0, 0), (60.0, 1), (120.0, 1), (180.0, 1)]

    in_the_cloud(story)


def test_rings_that_are_lost_are_told_at_the_end_of_the_invocation(capsys: pytest.CaptureFixture[str]) -> None:
    async def story(cloud: Cloud) -> None:
        handler = cloud.environment()
        await cloud.invoke({"holdfast": "sweep"}, handler)
        lines(capsys)
        cloud.sqs.broken = [Refusal("AccessDenied", 403)]
        handler._worker.host.telemetry.subscribe(lambda event, fields: None)  # type: ignore[union-attr]
        bell = handler._worker.host.home.doorbell  # type: ignore[union-attr]
        bell._tell = handler._worker.host.telemetry.emit  # type: ignore[union-attr]
        await cloud.invoke({"holdfast": "start", "workflow": "nap", "id": "n", "input": [60]}, handler)
        (told,) = lines(capsys)
        assert told["RingsFailed"] == 1
        assert not told.keys() & set(STATES)

    in_the_cloud(story)


def test_a_home_that_nobody_pays_for_writes_none(capsys: pytest.CaptureFixture[str]) -> None:
    app = hf.App("shop", home="memory://")
    handler = app.lambda_handler()
    handler({"holdfast": "sweep"})
    handler.close()
    assert capsys.readouterr().out == ""


def test_an_environment_that_opens_the_app_anew_writes_each_line_once(capsys: pytest.CaptureFixture[str]) -> None:
    async def story(cloud: Cloud) -> None:
        handler = cloud.environment()
        for _ in range(2):
            await cloud.invoke({"holdfast": "sweep"}, handler)
            await handler.aclose()
        assert len(lines(capsys)) == 2

    in_the_cloud(story)


async def test_a_worker_of_ones_own_writes_them_if_it_is_asked_to(
    new_url: Callable[[], Awaitable[str]], client: Any
) -> None:
    """On DynamoDB: under the home's name, and with the units that the store has counted."""
    url, written = await new_url(), list[str]()

    async def open_home() -> Home:
        return await open_aws_home(url, connection=ThreadedConnection(None, None, client=client))

    clock = Clock()
    app = hf.App("shop", home=open_home, clock=clock)
    hf.write_metrics(app, written.append)
    async with app.worker():
        (line,) = written
        assert metrics_of(line).keys() == UNITS.keys()
        await app.runtime().home.store.write(Put(Item("p", "x", body=Random(1).randbytes(2500))))
        await app.runtime().home.store.get("p", "x")
        clock.ms += 60_000
        assert app.employed is not None
        await app.employed.sweeper._sweep_again()
        told = metrics_of(written[1])
        assert told["WriteUnits"] == 3
        assert told["ReadUnits"] >= 1
    prefix = url.removeprefix("aws://").partition("?")[0]
    assert json.loads(line)["_aws"]["CloudWatchMetrics"][0]["Namespace"] == f"Holdfast/{prefix}"


async def test_of_a_home_without_a_price_there_are_the_other_metrics() -> None:
    written: list[str] = []
    app = hf.App("shop", home="memory://")
    hf.write_metrics(app, written.append)
    async with app.worker():
        pass
    assert metrics_of(written[0])["WriteUnits"] == 0
    assert json.loads(written[0])["_aws"]["CloudWatchMetrics"][0]["Namespace"] == "Holdfast/shop"
