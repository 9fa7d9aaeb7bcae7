"""The optional ports of homes that have to be looked after: whether their services answer, and their clean-up."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from msgspec import Struct


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


class Cleaner(Protocol):
    """An optional port of homes in which items and blobs are left over that their store does not delete by itself, and
    no worker purges.
    """

    async def clean(self, until: float) -> int:
        """Delete some of them, and stop at ``until``, in the loop's time; returns how many. Call it once an hour."""
        ...
