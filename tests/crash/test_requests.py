"""Every scenario on DynamoDB, with a crash between the requests of its writes."""

from __future__ import annotations

import os
from collections import Counter

import pytest
from tests.backends.aws.cutting import Cut, cut_at_every_request
from tests.backends.aws.local import lean_client
from tests.crash.conftest import EVERYTHING

from holdfast.testing import MemoryDatabase
from holdfast.testing.scenarios import ACTOR_SCENARIOS, DOCUMENT_SCENARIOS, EVENT_SCENARIOS, SCENARIOS, scenario

ALL = [each.name for each in (*SCENARIOS, *ACTOR_SCENARIOS, *EVENT_SCENARIOS, *DOCUMENT_SCENARIOS)]
FEW = [
    "sequential",
    "awaited child",
    "requests",
    "sent by a method",
    "events of an actor",
    "transfers between documents",
]
MOST_POINTS = 6


@pytest.mark.aws
def test_a_crash_between_the_requests_of_a_write_changes_nothing() -> None:
    names = ALL if EVERYTHING in os.environ else FEW
    suffered = Counter[Cut]()
    for each in map(scenario, names):
        if each.database is MemoryDatabase:
            suffered += cut_at_every_request(each, lean_client(), None if len(names) > len(FEW) else MOST_POINTS)
    assert all(suffered[cut] >= 2 * len(FEW) for cut in Cut), suffered
