"""The worlds that tests of workflows run in, and what their steps do and fail at."""

from __future__ import annotations

from collections import Counter

import pytest
from tests.worlds import *


@pytest.fixture
def ran() -> Counter[str]:
    """How often the steps of a test have done what."""
    return Counter()


@pytest.fixture
def broken() -> set[str]:
    """What the steps of a test fail at now."""
    return set()
