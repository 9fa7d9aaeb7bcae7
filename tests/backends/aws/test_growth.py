"""Two sizes that alarms look at: that of the table, and that of the largest item a process has written."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
from msgspec.structs import replace
from tests.backends.aws.cloud import Refusal

import holdfast as hf
from holdfast.backends.aws import Meter, Transport
from holdfast.backends.aws.growth import ASKED_EVERY_MS, TableSize
from holdfast.backends.memory import open_memory_home
from holdfast.ports import Home
from holdfast.watched import Metered, Used


class Table:
    def __init__(self) -> None:
        self.bytes, self.asked = 0, 0
        self.error: Exception | None = None

    async def send(self, operation: str, parameters: dict[str, Any]) -> dict[str, Any]:
        assert (operation, parameters) == ("DescribeTable", {"TableName": "t"})
        self.asked += 1
        if self.error is not None:
            raise self.error
        return {"Table": {"TableSizeBytes": self.bytes}}

    def close(self) -> None: ...


class Clock:
    ms = 1

    def now_ms(self) -> int:
        return self.ms


async def test_the_table_is_measured_once_an_hour() -> None:
    table, clock = Table(), Clock()
    size = TableSize(Transport(table, "t", random=Random(1)), "t", clock)
    table.bytes = 5
    await size.refresh()
    table.bytes = 7
    await size.refresh()
    assert (size.bytes, table.asked) == (5, 1)
    clock.ms += ASKED_EVERY_MS
    await size.refresh()
    assert (size.bytes, table.asked) == (7, 2)


async def test_without_the_right_to_measure_it_work_goes_on() -> None:
    table = Table()
    table.error = Refusal("AccessDeniedException")
    size = TableSize(Transport(table, "t", random=Random(1)), "t", Clock())
    await size.refresh()
    await size.refresh()
    assert (size.bytes, table.asked) == (0, 1)


@pytest.mark.parametrize("operation", ["PutItem", "UpdateItem"])
def test_the_bill_of_a_write_tells_how_large_its_item_is(operation: str) -> None:
    meter = Meter()
    for units in (3.0, 381.0, 2.0):
        meter.answered(operation, {"ConsumedCapacity": {"CapacityUnits": units}})
    meter.answered("TransactWriteItems", {"ConsumedCapacity": [{"CapacityUnits": 900.0}]})
    meter.answered("Query", {"ConsumedCapacity": {"CapacityUnits": 1000.0}})
    assert meter.largest_item_bytes == 381 * 1024


class Idle:
    """It has no process to call."""

    def wake_at(self, partition: str, due_at: int) -> None: ...

    async def call(self, wake_ups: Any) -> list[Any]:
        return []

    async def sent(self) -> None: ...


@pytest.mark.parametrize("called", [True, False], ids=["by others", "here"])
def test_a_sweep_that_is_reported_refreshes_what_its_line_tells(
    called: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    known = [0]

    async def refresh() -> None:
        known[0] = 9

    async def open_home() -> Home:
        metered = Metered("Holdfast/test", lambda: Used(0, 0, 5, known[0]), refresh)
        home = open_memory_home()
        return replace(home, metered=metered, invoker=Idle() if called else None)

    handler = hf.App("shop", home=open_home).lambda_handler()
    handler({"holdfast": "sweep"})
    handler.close()
    (line,) = capsys.readouterr().out.splitlines()
    assert '"LargestItemBytes":5,"TableBytes":9' in line
