"""What every test gets: `async def` tests run, no home leaks in from outside, Hypothesis tells its failures fully."""

from __future__ import annotations

import asyncio
import inspect
import os
from collections.abc import Callable, Coroutine
from typing import Any

import pytest
from hypothesis import settings

os.environ.pop("HOLDFAST_URL", None)

# A deadline per example would measure the machine, not the code.
settings.register_profile("holdfast", deadline=None, print_blob=True, derandomize="CI" in os.environ)
settings.load_profile("holdfast")


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Run an `async def` test on an event loop of its own; under `@given`, one loop per example."""
    test = pyfuncitem.obj
    if hasattr(test, "hypothesis"):
        if inspect.iscoroutinefunction(test.hypothesis.inner_test):
            test.hypothesis.inner_test = _on_its_own_loop(test.hypothesis.inner_test)
        return None
    if not inspect.iscoroutinefunction(test):
        return None
    arguments = {name: pyfuncitem.funcargs[name] for name in inspect.signature(test).parameters}
    asyncio.run(test(**arguments))
    return True


def _on_its_own_loop(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    def run(*args: Any, **kwargs: Any) -> None:
        asyncio.run(test(*args, **kwargs))

    return run
