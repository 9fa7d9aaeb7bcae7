"""The addresses of the pages, and the right that each needs."""

from __future__ import annotations

from typing import Final

from msgspec import Struct

from holdfast.commands.right import Right


class Address(Struct, frozen=True):
    """A page below the dashboard. One without a label is reached from others."""

    page: str
    label: str
    right: Right

    @property
    def name(self) -> str:
        """How templates name it."""
        return self.page or "overview"


ADDRESSES: Final = (
    Address("executions", "Executions", Right.READ),
    Address("execution", "", Right.READ),
)
"""All pages, in the order in which every page links to them."""
