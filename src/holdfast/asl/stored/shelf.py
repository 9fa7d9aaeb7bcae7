"""Where machines, definitions and activities are kept: documents, each written under its version (G3)."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final, TypeVar

from msgspec.structs import replace

from holdfast.asl.stored.records import StoredActivity, StoredMachine
from holdfast.asl.stored.texts import DEFINITIONS, StoredDefinition, digest_in, keep
from holdfast.codec.typed import codec_for
from holdfast.codec.upcasting import Schema
from holdfast.coordination.document.documents import Documents
from holdfast.errors import Conflict

if TYPE_CHECKING:
    from holdfast.coordination.document.documents import DocumentPage
    from holdfast.opened import Opened

T = TypeVar("T")

MACHINES: Final = "!asl-machines"
ACTIVITIES: Final = "!asl-activities"
"""Names that no documents of users can have."""

ALL: Final = "all"
"""The first part of the keys of what is listed."""


class Shelf:
    """The machines, definitions and activities of a home."""

    __slots__ = ("_activities", "_definitions", "_machines")

    def __init__(self, connect: Callable[[], Opened]) -> None:
        self._machines = _documents(MACHINES, StoredMachine, connect)
        self._definitions = _documents(DEFINITIONS, StoredDefinition, connect)
        self._activities = _documents(ACTIVITIES, StoredActivity, connect)

    # ── Machines ────────────────────────────────────────────────────────────────────────────────────────────────────

    async def machine(self, name: str) -> StoredMachine | None:
        """The machine of this name."""
        found = await self._machines.at(ALL, name).find()
        return None if found is None else found.value

    async def add_machine(self, machine: StoredMachine) -> StoredMachine | None:
        """Keep a new machine; answers the one that has this name already, if there is one."""
        try:
            await self._machines.at(ALL, machine.name).create(machine)
        except Conflict as conflict:
            there: StoredMachine = conflict.there.value
            return there
        return None

    async def change_machine(self, name: str, change: Callable[[StoredMachine], StoredMachine]) -> StoredMachine:
        """Write what ``change`` makes of a machine, which may raise to leave it as it is. Raises ``NotFound``."""
        written = await self._machines.at(ALL, name).update(change)
        return written.value

    async def remove_machine(self, name: str) -> None:
        """Forget a machine. Executions go on: each has its definition."""
        await self._machines.at(ALL, name).delete()

    async def machines(self, after: str | None, limit: int) -> DocumentPage[StoredMachine]:
        """Machines in the order of their names, a page at a time."""
        return await self._machines.list(ALL, after=after, limit=limit)

    # ── Definitions ─────────────────────────────────────────────────────────────────────────────────────────────────

    async def keep_definition(self, text: str) -> str:
        """Keep a definition, once, before anything refers to it; answers its digest."""
        return await keep(self._definitions.opened().home.store, text)

    async def text(self, definition: str) -> str:
        """The text of a definition that an execution has, or refers to."""
        digest = digest_in(definition)
        return await self.definition(digest) if digest else definition

    async def definition(self, digest: str) -> str:
        """The text of a definition that was kept. Raises ``NotFound``."""
        return (await self._definitions.at(digest).get()).value.text

    # ── Activities ──────────────────────────────────────────────────────────────────────────────────────────────────

    async def activity(self, name: str) -> StoredActivity | None:
        """The activity of this name."""
        found = await self._activities.at(ALL, name).find()
        return None if found is None else found.value

    async def add_activity(self, activity: StoredActivity) -> StoredActivity:
        """Keep an activity; answers it, or the one that has this name already."""
        try:
            await self._activities.at(ALL, activity.name).create(activity)
        except Conflict as conflict:
            there: StoredActivity = conflict.there.value
            return there
        return activity

    async def tag_activity(self, name: str, change: Callable[[dict[str, str]], dict[str, str]]) -> None:
        """Change the tags of an activity. Raises ``NotFound``."""
        await self._activities.at(ALL, name).update(lambda old: replace(old, tags=change(old.tags)))

    async def remove_activity(self, name: str) -> None:
        """Forget an activity."""
        await self._activities.at(ALL, name).delete()

    async def activities(self, after: str | None, limit: int) -> DocumentPage[StoredActivity]:
        """Activities in the order of their names, a page at a time."""
        return await self._activities.list(ALL, after=after, limit=limit)


def _documents(name: str, type: type[T], connect: Callable[[], Opened]) -> Documents[T]:
    return Documents(name, Schema(codec_for(type), {}), None, connect)
