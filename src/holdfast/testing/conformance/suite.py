"""What the parts of the suite share: how a test gets its store, and two ways to check its answers."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Final, TypeVar

import pytest

from holdfast.errors import Refused
from holdfast.items import HEAD, Item
from holdfast.ports import Page, Store

SORTS: Final = (HEAD, "j/00000001")
"""A head, and another item: stores may keep them in different places."""

TIMEOUT_SECONDS: Final = 60
"""A test that takes longer waits for an answer that never comes."""

S = TypeVar("S", bound="Opened")


def on_store(test: Callable[[S, Store], Awaitable[None]]) -> Callable[[S, Path], None]:
    """Run a test on a store of its own, opened and closed around it, on an event loop of its own."""

    async def scenario(suite: S, folder: Path) -> None:
        store = await suite.open_store(folder)
        try:
            async with asyncio.timeout(TIMEOUT_SECONDS):
                await test(suite, store)
        finally:
            await store.close()

    def run(self: S, tmp_path: Path) -> None:
        asyncio.run(scenario(self, tmp_path))

    run.__name__, run.__doc__ = test.__name__, test.__doc__
    return run


class Opened:
    """How the suite gets a store, and how stores may differ."""

    knows_creation_order = True
    """``scan`` goes from the newest to the oldest."""

    leased_heads_are_due = True
    """``due`` returns all leased heads too; if false it may leave some out, and place the others anywhere."""

    judged_sorts = SORTS
    """Where conditions are tested; a store that treats heads and other items alike may name one place, to save time."""

    async def open_store(self, folder: Path) -> Store:
        """A new, empty store; its files, if any, go into ``folder``."""
        raise NotImplementedError


async def refusal(write: Awaitable[Sequence[Item | None]]) -> Refused:
    """The refusal in which ``write`` must end."""
    with pytest.raises(Refused) as caught:
        await write
    return caught.value


async def pages(read: Callable[..., Awaitable[Page]], after: str | None = None) -> list[Item]:
    """All items of ``read``, page after page, from the start or from the cursor ``after``."""
    found: list[Item] = []
    cursors = {after}
    while True:
        page = await read(after=after)
        found += page.items
        after = page.cursor
        if after is None:
            return found
        assert after not in cursors, "the pages go round in circles"
        cursors.add(after)
