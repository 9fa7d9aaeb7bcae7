"""The port by which a home finds executions by their tags and times."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from msgspec import Struct


class Sought(Struct, frozen=True):
    """What an execution has to have: all of these tags, and a time of creation in [``since``, ``until``), in
    milliseconds.
    """

    tags: Mapping[str, str]
    since: int = -(2**62)
    until: int = 2**62


class Found(Struct, frozen=True):
    """The names of some partitions. For the next page pass ``cursor`` as ``after``; ``None`` is the end."""

    names: tuple[str, ...]
    cursor: str | None = None


class Finder(Protocol):
    """An optional port of stores that find executions by their tags and times with an index."""

    async def find(
        self, prefix: str, sought: Sought, *, status: str | None = None, after: str | None = None, limit: int = 100
    ) -> Found:
        """The names of the executions that begin with ``prefix``, newest first, among which all are that have what is
        ``sought``. Others may be among them: the caller judges. A page may be short, or empty, although there are more.
        """
        ...

    async def forget(self) -> None:
        """Forget the tags: from now on bodies are sealed, and the index must not hold their values."""
        ...
