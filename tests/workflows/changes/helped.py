"""A body that calls helper functions of its own module: its version is the digest of all of them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from tests.workflows.changes.parts import Kit, go

Helper = Callable[[Kit], Awaitable[list[str]]]


class Helped:
    """A body, alike in every release but for its helper. All helpers have one name, so that their code alone tells."""

    def __init__(self, helper: Helper) -> None:
        self._helper = helper

    def body(self, kit: Kit) -> Callable[[], Awaitable[Any]]:
        """What is declared as a workflow."""
        helper = self._helper

        async def job() -> Any:
            return [*await helper(kit), await go()(kit), await kit.call("do", "c")]

        return job

    async def __call__(self, kit: Kit) -> Any:
        """As a part of another body."""
        return await self.body(kit)()


def plain() -> Helper:
    async def helper(kit: Kit) -> list[str]:
        return [await kit.call("do", "a"), await kit.call("do", "b")]

    return helper


def with_one_more() -> Helper:
    async def helper(kit: Kit) -> list[str]:
        return [await kit.call("do", "a"), await kit.call("other", "x"), await kit.call("do", "b")]

    return helper


def with_one_less() -> Helper:
    async def helper(kit: Kit) -> list[str]:
        return [await kit.call("do", "a")]

    return helper


def around(inner: Helper) -> Helper:
    """A helper that calls a helper."""

    async def helper(kit: Kit) -> list[str]:
        return await inner(kit)

    return helper
