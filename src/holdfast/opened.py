"""An open app, as the concepts of the coordination layer see it."""

from __future__ import annotations

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
