"""What the tests of the examples run in: virtual time, on a home that is gone with the test or outlives a restart."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any

import pytest

import holdfast as hf
from holdfast.backends.memory import MemoryData, open_memory_home
from holdfast.ports import Home
from holdfast.testing import VirtualClock, run_virtual

Main = Callable[[], Coroutine[Any, Any, Any]]


@pytest.fixture
def virtually() -> Callable[[hf.App, Main], Any]:
    """``virtually(app, main)`` answers ``main()``, which runs while the app works, in virtual time."""

    def run(app: hf.App, main: Main) -> Any:
        async def while_it_works() -> Any:
            app.home_url, app.clock = "memory://", VirtualClock()
            async with app.worker():
                return await main()

        return run_virtual(while_it_works)

    return run


@pytest.fixture
def shared_app() -> Callable[[str], hf.App]:
    """``shared_app("one")`` is an app on a memory home that all apps of the test share, as processes share a file."""
    data = MemoryData()

    async def open_home() -> Home:
        return open_memory_home(data=data)

    return lambda name: hf.App(name, home=open_home, clock=VirtualClock())
