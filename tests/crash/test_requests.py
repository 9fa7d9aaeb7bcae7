"""Every scenario on DynamoDB, with a crash between the requests of its writes."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from tests.backends.aws import hostile
from tests.backends.aws.cutting import Cut, cut_at_every_request
from tests.backends.aws.local import lean_client
from tests.scenarios import ACTOR_SCENARIOS, DOCUMENT_SCENARIOS, EVENT_SCENARIOS, SCENARIOS, scenario

from holdfast.testing import MemoryDatabase

ALL = [
    each.name
    for each in (*SCENARIOS, *ACTOR_SCENARIOS, *EVENT_SCENARIOS, *DOCUMENT_SCENARIOS)
    if each.database is MemoryDatabase and each.name != "events of many"
]
"""That one is for the swarm: it has so many writes."""

FEW = [
    "sequential",
    "awaited child",
    "requests",
    "sent by a method",
    "events of an actor",
    "transfers between documents",
]
MOST_POINTS = 12


WAYS = ["straight", "hostile"]


def way_of(name: str) -> Any:
    """The way to DynamoDB, where it is not straight."""
    return hostile.lean() if name == "hostile" else None


@pytest.mark.aws
@pytest.mark.parametrize("way", WAYS)
def test_a_crash_between_the_requests_of_a_write_changes_nothing(way: str) -> None:
    suffered = Counter[Cut]()
    for name in FEW:
        suffered += cut_at_every_request(scenario(name), lean_client(), MOST_POINTS, way=way_of(way))
    assert all(suffered[cut] >= 2 * len(FEW) for cut in Cut), suffered


@pytest.mark.aws
@pytest.mark.torture
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", ALL)
def test_a_crash_between_any_two_requests_changes_nothing(name: str, way: str) -> None:
    assert cut_at_every_request(scenario(name), lean_client(), None, way=way_of(way)).total() > 0
