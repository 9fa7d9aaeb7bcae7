"""What a home tells of itself to those who watch it: what it has used, and whether its services answer.

Two optional ports of ``holdfast.ports``.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol

from msgspec import Struct


class Used(Struct, frozen=True):
    """The usage of a store by a process so far, in billed units: 1 KB written, 4 KB read.

    ``largest_item_bytes`` is the size of the largest item that it has written, ``table_bytes`` that of all items of all
    processes; 0 if it is not known.
    """

    write_units: float = 0
    read_units: float = 0
    largest_item_bytes: int = 0
    table_bytes: int = 0


async def nothing_to_refresh() -> None:
    """For a home that knows its usage by itself."""


class Metered(Struct, frozen=True):
    """An optional port of homes with billed and monitored usage: the usage so far, and the namespace of its metrics.

    ``refresh`` asks for what the process cannot count itself. It is called at each sweep that is reported, and raises
    nothing.
    """

    namespace: str
    used: Callable[[], Used]
    refresh: Callable[[], Awaitable[None]] = nothing_to_refresh


class Reached(Struct, frozen=True):
    """What a service of a home answered. ``lack`` is what is wrong with it, if anything; ``told`` then says what that
    leads to.
    """

    service: str
    told: str
    lack: str | None = None


class Services(Protocol):
    """An optional port of homes that use several services: whether each of them can be reached."""

    async def check(self) -> Sequence[Reached]:
        """Ask each service once. Errors are answers."""
        ...
