"""What a limit adds to a step on DynamoDB, in requests and units of the store, as ``docs/cost.md`` says."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from tests.cost.workloads import RUNS, Ask, Make, measured

import holdfast as hf
from holdfast.cost.metering import uncounted
from holdfast.cost.trial import Path as Where

PAGE = Path(__file__).parents[2] / "docs" / "cost.md"


def calls(count: int, *, limited: bool) -> Make:
    """Executions of one step each, ``count`` of them one after the other, all of one limit or of none. The leases of a
    trial are long, and so are its loans.
    """

    def make(app: hf.App) -> Ask:
        @app.step(limit=app.limit("bank", permits=8) if limited else None)
        async def call(number: int) -> int:
            return number

        @app.workflow
        async def job(number: int) -> int:
            return await call(number)

        async def run(number: int, _deployment: object) -> None:
            for place in range(count):
                handle = await job.start(place, id=f"{number}-{place}")
                with uncounted():
                    await handle

        return run

    return make


def added(count: int, path: Where) -> tuple[float, float, float]:
    """Requests, write units and read units that a limit adds to that number of calls."""
    without, within = (measured(calls(count, limited=limited), path=path).usage for limited in (False, True))
    return (
        (within.requests - without.requests) / RUNS,
        (within.write_units - without.write_units) / RUNS,
        (within.read_units - without.read_units) / RUNS,
    )


@pytest.mark.parametrize(
    ("name", "count", "path"),
    [
        ("one, in an invocation of its own", 1, Where.FUNCTIONS),
        ("twenty, in a worker that has a loan", 20, Where.WORKERS),
    ],
)
def test_the_page_says_what_a_limit_adds(name: str, count: int, path: Where) -> None:
    rows = PAGE.read_text(encoding="utf-8").partition("## A step with a limit")[2].partition("\n## ")[0]
    told = re.search(rf"^\| {re.escape(name)} \| ([\d.]+) \| ([\d.]+) \| ([\d.]+) \|", rows, re.MULTILINE)
    found = added(count, path)
    assert told is not None
    assert tuple(map(float, told.groups())) == pytest.approx(found), found
