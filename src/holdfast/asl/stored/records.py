"""What a home keeps of a machine that was created by a request, and of an activity. Times are milliseconds."""

from __future__ import annotations

from typing import Any, Final

from msgspec import Struct

STANDARD: Final = "STANDARD"
EXPRESS: Final = "EXPRESS"

NO_REVISION: Final = ""
"""The revision of a machine that was never updated."""


class Revision(Struct, frozen=True, omit_defaults=True, kw_only=True):
    """What a machine runs: the digest of its definition, and what belongs to it."""

    id: str = NO_REVISION
    digest: str
    role_arn: str
    logging: dict[str, Any] = {}
    tracing: dict[str, Any] = {}
    at: int


class Version(Struct, frozen=True, omit_defaults=True, kw_only=True):
    """A revision that was published under a number."""

    number: int
    revision: Revision
    description: str = ""
    at: int


class Route(Struct, frozen=True):
    """A version that an alias leads to, and how many of a hundred executions."""

    version: int
    weight: int


class Alias(Struct, frozen=True, omit_defaults=True, kw_only=True):
    """A name for one version or two."""

    routes: tuple[Route, ...]
    description: str = ""
    created_at: int
    updated_at: int


class StoredMachine(Struct, frozen=True, omit_defaults=True, kw_only=True):
    """A machine with all its versions and aliases: each request that changes it is one conditional write."""

    name: str
    type: str = STANDARD
    revision: Revision
    created_at: int
    tags: dict[str, str] = {}
    versions: tuple[Version, ...] = ()
    published: int = 0
    """How many versions were ever published: a number is never used again."""
    aliases: dict[str, Alias] = {}

    def version(self, number: str) -> Version | None:
        """The version of this number."""
        return next((each for each in self.versions if str(each.number) == number), None)


class StoredActivity(Struct, frozen=True, omit_defaults=True, kw_only=True):
    """An activity: a name under which workers ask for tasks."""

    name: str
    created_at: int
    tags: dict[str, str] = {}
