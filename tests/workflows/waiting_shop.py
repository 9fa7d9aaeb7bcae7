"""A shop in virtual time whose heads are looked at, and whose writes are counted."""

from __future__ import annotations

import asyncio
from typing import Any

from msgspec import UNSET
from msgspec.structs import replace

import holdfast as hf
from holdfast.backends.memory import MemoryData, open_memory_home
from holdfast.items import HEAD, Item, Update
from holdfast.ports import Home
from holdfast.testing import VirtualClock
from holdfast.workflows.record import SUSPENDED, decode_record, partition_of
from holdfast.workflows.waits import Waits


class Watched:
    """A store that counts its writes to heads. ``before`` is called before one, ``after`` before its answer."""

    def __init__(self, store: Any) -> None:
        self._store = store
        self.writes: list[Update] = []
        self.before: Any = None
        self.after: Any = None

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def write(self, *writes: Any) -> Any:
        seen = [each for each in writes if isinstance(each, Update) and each.sort == HEAD]
        self.writes += seen
        for each in seen:
            if self.before is not None:
                await self.before(each)
        answer = await self._store.write(*writes)
        for each in seen:
            if self.after is not None:
                await self.after(each)
        return answer


def is_renewal(update: Update) -> bool:
    """Whether it extends a lease, and does nothing else."""
    return isinstance(update.lease_until, int) and update.status is UNSET and update.owner is UNSET


class Shop:
    """One process of it. ``data`` is shared with others."""

    def __init__(self, data: MemoryData | None = None, owner: str = "one", **home: Any) -> None:
        self.data = data or MemoryData()
        self.lease_seconds = 15.0
        self._home, self._owner = home, owner
        self.app = hf.App("shop", home=self._open, clock=VirtualClock())

    async def _open(self) -> Home:
        home = open_memory_home(data=self.data, owner=self._owner)
        self.store = Watched(home.store)
        return replace(home, store=self.store, **self._home)

    async def head(self, workflow: Any, id: str = "1") -> Item:
        head = await self.app.runtime().home.store.get(partition_of(workflow.name, id))
        assert head is not None
        return head

    async def waits(self, workflow: Any, id: str = "1") -> Waits | None:
        return decode_record((await self.head(workflow, id)).body).waits

    async def rest(self, workflow: Any, id: str = "1") -> int:
        """Start an execution, and wait until it is suspended; answers when it was created."""
        await workflow.start(id=id)
        while (await self.head(workflow, id)).status != SUSPENDED:
            await asyncio.sleep(0.1)
        return decode_record((await self.head(workflow, id)).body).created_at

    async def told(self, workflow: Any, id: str = "1") -> None:
        """Wait until its owner has told what it waits for."""
        while await self.waits(workflow, id) is None:
            await asyncio.sleep(0.1)

    @property
    def renewals(self) -> list[Update]:
        return [each for each in self.store.writes if is_renewal(each)]
