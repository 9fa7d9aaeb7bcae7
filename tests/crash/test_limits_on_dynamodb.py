"""Limits of calls on DynamoDB Local: a sample of the crashes that ``test_limits.py`` has in memory."""

from __future__ import annotations

import pytest
from tests.backends.aws.local import lean_client
from tests.crash.stage import Stage
from tests.scenarios import scenario

from holdfast.testing.crashes import CRASHES

MOST_POINTS = 12


@pytest.mark.aws
def test_a_crash_at_some_writes_changes_nothing() -> None:
    Stage("dynamodb", lean_client(), faults=CRASHES, most_points=MOST_POINTS).crash(scenario("limited"))
