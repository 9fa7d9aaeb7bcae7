"""The app that is tried: in the function that is deployed, and in the process that looks at it."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any, Final

from msgspec import Struct

import holdfast as hf
from holdfast.clock import SystemClock
from holdfast.ports import Home

NAME: Final = "verify"
POISON: Final = "poison"
INBOX: Final = "Inbox"

PATIENCE: Final = hf.Retry(max_attempts=3, initial=1.0, backoff=1, max_delay=2.0)
"""Of the actor that meets a poisoned message."""


class Trial(Struct, frozen=True):
    """The app, and the workflow of one step in it."""

    app: hf.App
    once: hf.Workflow[[], None]


def trial(home: str | Callable[[], Coroutine[Any, Any, Home]] | None = None) -> Trial:
    """The app on a home; by default on the home that the environment names."""
    app = hf.App(NAME, home=home)

    class Counter(hf.Actor, app=app):  # pyright: ignore[reportUnusedClass] - it is called by its name
        count: int = 0

        async def add(self, by: int) -> int:
            self.count += by
            return self.count

    class Inbox(hf.Actor, app=app, ordered_retry=PATIENCE):  # pyright: ignore[reportUnusedClass] - it is called by its name too
        taken: list[str] = hf.field(default_factory=list[str])

        async def take(self, what: str) -> None:
            if what == POISON:
                raise ValueError("this message is poisoned, on purpose")
            self.taken = [*self.taken, what]

        @hf.read
        async def all(self) -> list[str]:
            return self.taken

    @app.step
    async def touch() -> None: ...

    @app.workflow
    async def once() -> None:
        await touch()

    @app.step
    async def clock_ms() -> int:
        return SystemClock().now_ms()

    @app.workflow
    async def nap(seconds: int) -> int:  # pyright: ignore[reportUnusedFunction] - it is called by its name too
        """Sleep; returns how many milliseconds late it woke."""
        began = await clock_ms()
        await hf.sleep(seconds)
        return await clock_ms() - began - seconds * 1000

    return Trial(app, once)
