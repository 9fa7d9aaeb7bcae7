"""The homes that the scenarios are crashed on."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from tests.backends.aws import hostile
from tests.backends.aws.local import lean_client
from tests.crash.stage import Stage

from holdfast.ports import Home
from holdfast.testing.crashes import CRASHES
from holdfast.testing.world import MemoryDatabase

HERE = Path(__file__).parent
EVERYTHING = "HOLDFAST_TORTURE"
SAMPLED_SHARE = 0.05
SAMPLED_SHARE_IN_MEMORY = 0.25
MOST_POINTS = 12


@pytest.fixture
def billed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each write is paid for."""
    open_home = MemoryDatabase.open

    async def open_billed(self: MemoryDatabase, owner: str) -> Home:
        self.billed = True
        return await open_home(self, owner)

    monkeypatch.setattr(MemoryDatabase, "open", open_billed)


HOMES = [
    "memory",
    pytest.param("dynamodb", marks=pytest.mark.aws),
    pytest.param("hostile dynamodb", marks=pytest.mark.aws),
]


THROUGHOUT = pytest.param("memory throughout", marks=pytest.mark.torture)
"""Every fault at every write, by ``make torture``, of what has them in turn else."""


@pytest.fixture(params=HOMES)
def stage(request: pytest.FixtureRequest) -> Iterator[Stage]:
    """Every write of every scenario, wherever it is played. Through the proxy processes die before and after each
    write: failures and lost answers are the proxy's own.
    """
    yield from staged(request.param)


def staged(name: str) -> Iterator[Stage]:
    """The home of this name, for one test."""
    everything = EVERYTHING in os.environ
    match name:
        case "memory" | "memory throughout":
            yield Stage(name)
        case "dynamodb" if everything:
            yield Stage("dynamodb", lean_client())
        case "dynamodb":
            yield Stage("dynamodb", lean_client(), faults=CRASHES, most_points=MOST_POINTS)
        case _:
            before, most = hostile.suffered(), None if everything else MOST_POINTS
            yield Stage("hostile dynamodb", lean_client(), hostile.lean(), faults=CRASHES, most_points=most)
            assert hostile.suffered() > before, "a proxy without faults proves nothing"


@pytest.fixture(
    params=["memory", *([pytest.param("dynamodb", marks=pytest.mark.aws)] if EVERYTHING in os.environ else [])]
)
def patient_stage(request: pytest.FixtureRequest) -> Stage:
    """On DynamoDB only by ``make torture-aws``: every pair of writes takes its time."""
    return Stage(request.param, None if request.param == "memory" else lean_client())


@pytest.fixture(params=[*HOMES, THROUGHOUT])
def sampled_stage(request: pytest.FixtureRequest) -> Iterator[Stage]:
    """Every write of a seeded sample of the scenarios on DynamoDB; of all in memory, before one and after the next."""
    for stage in staged(request.param):
        if stage.client is None:
            yield replace(stage, in_turn=request.param == "memory")
        else:
            yield stage if EVERYTHING in os.environ else replace(stage, share=SAMPLED_SHARE)


@pytest.fixture(params=["memory", THROUGHOUT])
def turning_stage(request: pytest.FixtureRequest) -> Stage:
    """Every write of every scenario in memory, where each of them has every fault in another way; here one in turn."""
    return Stage(request.param, in_turn=request.param == "memory")


@pytest.fixture(params=["some", pytest.param("all", marks=pytest.mark.torture)])
def memory_stage(request: pytest.FixtureRequest) -> Stage:
    """In memory a sample of the scenarios, where each of them is played in another way too; all by ``make torture``."""
    return Stage("memory", share=SAMPLED_SHARE_IN_MEMORY if request.param == "some" else 1.0)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.path.is_relative_to(HERE) and "hostile" not in item.nodeid:
            item.add_marker(pytest.mark.gentle("one fault at a time, and then what was reported is compared"))
