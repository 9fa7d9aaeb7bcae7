"""The event loop of a process that is a worker: uvloop's where that is installed, or the one of asyncio."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Coroutine
from typing import Any, Final, TypeVar

from holdfast.errors import ConfigurationError

T = TypeVar("T")

LOOP_VARIABLE: Final = "HOLDFAST_LOOP"


def run_worker(main: Coroutine[Any, Any, T]) -> T:
    """Run ``main`` on a loop of its own, and answer its result.

    The environment's ``HOLDFAST_LOOP`` chooses between ``asyncio`` and ``uvloop``. Raises ``ConfigurationError`` if it
    names another loop, or uvloop without the extra.
    """
    try:
        factory = _factory(os.environ.get(LOOP_VARIABLE, ""))
    except ConfigurationError:
        main.close()  # or Python would complain that it was never awaited
        raise
    with asyncio.Runner(loop_factory=factory) as runner:
        return runner.run(main)


def _factory(wanted: str) -> Callable[[], asyncio.AbstractEventLoop] | None:
    if wanted not in {"", "asyncio", "uvloop"}:
        raise ConfigurationError(f"{LOOP_VARIABLE} is asyncio or uvloop, not {wanted!r}")
    if wanted == "asyncio":
        return None
    try:
        from uvloop import new_event_loop  # noqa: PLC0415 - an extra, which few have
    except ImportError:
        if not wanted:
            return None
        raise ConfigurationError(
            f"{LOOP_VARIABLE} is uvloop, which is not installed: pip install 'holdfast[uvloop]'"
        ) from None
    return new_event_loop
