"""Single: one execution of a key at a time, whatever is asked for meanwhile."""

from __future__ import annotations

from contextlib import suppress
from enum import StrEnum
from typing import ClassVar, Final

from holdfast import ids
from holdfast.actors.timers import timer
from holdfast.errors import InvalidState, NotFound
from holdfast.kernel.unit import current_unit
from holdfast.patterns.starts.keyed import Starter
from holdfast.workflows.record import OPEN, partition_of

LOOK_AGAIN: Final = "10m"
"""How often an actor whose execution runs for long sees whether it still has something to remember."""

STORED_WITHIN: Final = "0.1s"
"""The usual time of a commit."""


class Mode(StrEnum):
    """What becomes of a request while an execution of its key is open.

    ``SKIP`` it, ``JOIN`` the execution there is, or ``REPLACE`` that one: it is asked to stop, and a new one begins.
    """

    SKIP = "skip"
    JOIN = "join"
    REPLACE = "replace"


class Singleton(Starter):
    """Knows the latest execution of its key by its ``id``."""

    mode: ClassVar[Mode]

    id: str = ""

    async def ask(self, input: str) -> str:
        if self.id and await self._is_open():
            match self.mode:
                case Mode.SKIP:
                    return ""
                case Mode.JOIN:
                    return self.id
                case Mode.REPLACE:
                    self.stop[self.id].after(0, self.id)
        self.id = ids.new_ordered_id(self.now_ms)
        await self.launch(self.id, input)
        self.look.after(LOOK_AGAIN)
        return self.id

    @timer
    async def stop(self, id: str) -> None:
        """Ask an execution to stop that was replaced, once it is stored: it may start with the commit to come."""
        if self._starting(id):
            self.stop[id].after(STORED_WITHIN, id)
            return
        with suppress(InvalidState, NotFound):  # it has ended, and may be gone
            await self.workflow.handle(id).cancel("replaced by a newer start of its key")

    @timer
    async def look(self) -> None:
        """Forget an execution that has ended, so that the actor can be forgotten."""
        if await self._is_open():
            self.look.after(LOOK_AGAIN)
        else:
            self.id = ""

    async def _is_open(self) -> bool:
        """Whether the execution has not ended. One that starts with the commit to come is not yet stored."""
        if self._starting(self.id):
            return True
        head = await self.kind.connect().home.store.get(partition_of(self.workflow.name, self.id))
        return head is not None and head.status in OPEN

    def _starting(self, id: str) -> bool:
        unit = current_unit.get()
        return unit is not None and unit.head_to_be(partition_of(self.workflow.name, id)) is not None
