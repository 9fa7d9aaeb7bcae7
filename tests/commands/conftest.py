"""The shop of the command line with its worker, and that of HTTP and Lambda on a home in memory."""

from __future__ import annotations

import pytest
from tests.cli.conftest import shop, worker
from tests.http.conftest import Shop
from tests.worlds import *
from tests.worlds import World

__all__ = ["http_shop", "shop", "worker"]


@pytest.fixture
def http_shop(memory_world: World) -> Shop:
    return Shop(memory_world.app())
