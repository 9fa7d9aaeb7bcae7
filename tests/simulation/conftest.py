"""What tests share that let turns fail by the thousand."""

from __future__ import annotations

import gc
import logging
from collections.abc import Iterator

import pytest


@pytest.fixture
def quiet(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    """Failed turns are not logged. Bodies that a planted bug leaves behind complain when they are collected: each does
    so in its own test.
    """
    caplog.set_level(logging.CRITICAL)
    yield
    gc.collect()
