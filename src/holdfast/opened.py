"""An app as those who only open it see it, and an open one as the concepts of the coordination layer do."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from types import TracebackType
from typing import Any, Protocol

from holdfast.clock import Clock
from holdfast.ports import Home


class Opened(Protocol):
    """The home and what belongs to every use of it. ``limit_bytes`` is the largest encoded value that one call may
    store.
    """

    @property
    def home(self) -> Home: ...

    @property
    def clock(self) -> Clock: ...

    @property
    def limit_bytes(self) -> int: ...

    def emit(self, event: str, **fields: Any) -> None:
        """Count an event of telemetry."""
        ...


class Openable(Protocol):
    """An app that is open within a block. In the block of its ``worker`` this process also works."""

    @property
    def name(self) -> str: ...

    async def __aenter__(self) -> Any: ...

    async def __aexit__(
        self, type: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None, /
    ) -> None: ...

    def worker(self) -> AbstractAsyncContextManager[Any]: ...
