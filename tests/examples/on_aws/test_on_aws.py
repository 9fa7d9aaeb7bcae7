"""A small run of the demonstration on an emulator of AWS, deployed by the template; and what it says of a bad one."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from examples.on_aws.__main__ import table
from examples.on_aws.demo import Load, Report, show
from examples.on_aws.faults import POINTS
from tests.infra.tools import environment_or_skip

SMALL = Load(
    orders=8,
    clicks=3,
    requests=6,
    games=6,
    processes=4,
    ticks=3,
    callers=3,
    random_kills=2,
    kill_every_seconds=2.0,
    times_of_each_fault=1,
)


class Silent:
    def tell(self, text: str) -> None:
        pass


@pytest.mark.aws
@pytest.mark.torture
@pytest.mark.process
@pytest.mark.slow
@pytest.mark.parametrize("hostile", [False, True], ids=["kind", "hostile"])
def test_everything_is_exact_though_environments_are_killed_and_all_is_sent_twice(
    tmp_path: Path, hostile: bool
) -> None:
    environment_or_skip("ministack")
    report = asyncio.run(show(tmp_path, SMALL, Silent(), construct=False, hostile=hostile))
    assert report.problems == []
    assert len(report.done) == 7
    assert all(report.faults[f"environments that died at '{name}'"] == 1 for name in POINTS)
    assert report.faults["environments killed while at work"] > 0
    assert report.faults["batches of rings lost"] == 1


def test_a_run_that_does_not_fit_together_says_so() -> None:
    done, faults = {"counter": "36 clicks"}, {"sweeps": 0}
    bad = Report(done=done, faults=faults, problems=["it never happened: sweeps"], elapsed_seconds=12.3)
    told = "\n".join(table(bad))
    assert "It does not fit together:\n  it never happened: sweeps" in told
    good = Report(done=done, faults={"sweeps": 3}, problems=[], elapsed_seconds=12.3)
    assert table(good)[-1] == "Every result and every book is exact. 12 s."
