"""A command as people, routes and the audit name it."""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from holdfast.commands.context import Command
from holdfast.commands.right import Right


class Named(Struct, frozen=True):
    """A command as people and the audit name it.

    ``right`` is what a caller over HTTP needs; ``None``: a token of its own lets it in. ``needs_code`` are those that
    run or read the app's code; the others work on a home whose code is elsewhere. What is ``audited`` leaves a row.
    """

    name: str
    command: type[Command[Any]]
    right: Right | None
    needs_code: bool = False
    audited: bool = False

    @property
    def tag(self) -> str:
        """How its JSON names it."""
        return str(self.command.__struct_config__.tag)
