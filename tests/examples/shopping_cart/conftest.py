"""The shop as its customers meet it: a real server on a random port of this machine, on a file of its own."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path

import pytest
from examples.shopping_cart.__main__ import serving
from examples.shopping_cart.browser import Browser
from examples.shopping_cart.outside import BOOKS_VARIABLE
from examples.shopping_cart.shop import app
from tests.redis_server import redis_server
from tests.worlds import hangs_after_seconds, watchdog

__all__ = ["hangs_after_seconds", "redis_server", "watchdog"]

Open = Callable[[], AbstractAsyncContextManager[Callable[[], Browser]]]


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder that the shop and the world outside live in, for this process and those that the test starts."""
    monkeypatch.setenv("HOLDFAST_URL", f"sqlite:///{tmp_path}/shop.db")
    monkeypatch.setenv(BOOKS_VARIABLE, f"{tmp_path}/outside.db")
    monkeypatch.setattr(app, "_home", None)  # another test may have set one
    return tmp_path


@pytest.fixture
def opened(home: Path) -> Open:
    """``async with opened() as visitor``: the shop is open; each ``visitor()`` is a browser of its own."""

    @asynccontextmanager
    async def open_shop() -> AsyncIterator[Callable[[], Browser]]:
        async with serving() as port:
            yield lambda: Browser(port)

    return open_shop
