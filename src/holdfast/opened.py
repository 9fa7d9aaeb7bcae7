"""An open app, as the concepts of the coordination layer see it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from msgspec import Struct

from holdfast.clock import Clock
from holdfast.ports import Home


class Opened(Struct, frozen=True):
    """The home and what belongs to every use of it. ``tell`` counts an event of telemetry.

    ``limit_bytes`` is the largest encoded value that one call may store.
    """

    home: Home
    clock: Clock
    limit_bytes: int
    tell: Callable[..., Any]
