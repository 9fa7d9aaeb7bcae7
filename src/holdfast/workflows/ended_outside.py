"""The end of an execution that no body has come to: who has to learn of it, and how long it is kept."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from holdfast.coordination.inbox import USED
from holdfast.errors import Refused
from holdfast.items import AllOf, AnyOf, Condition, EpochIs, StatusIn, Update
from holdfast.paging import items
from holdfast.persist import write_for_caller
from holdfast.workflows.messages import send, was_started
from holdfast.workflows.record import (
    AWAIT_PREFIX,
    TERMINATED,
    AwaitedEnded,
    AwaitRequest,
    ChildEnded,
    ExecutionRecord,
    Message,
    decode_message,
)

if TYPE_CHECKING:
    from holdfast.clock import Clock
    from holdfast.coordination.inbox import Sender
    from holdfast.failure import ErrorRecord
    from holdfast.items import Item
    from holdfast.kernel.host import Host
    from holdfast.ports import Home, Store
    from holdfast.registrations import Registrations


class Teller(Struct, frozen=True):
    """What it takes to tell other executions."""

    home: Home
    host: Host | None
    sender: Sender
    clock: Clock

    async def tell(self, ended: Item, record: ExecutionRecord, error: ErrorRecord, heard: Iterable[str]) -> None:
        """Tell the parent, the starter, and those who have asked to be told, while the end ``stands``. ``heard`` are
        those that the journal names.
        """
        if (parent := record.parent) is not None:
            message = ChildEnded(parent.run, parent.op, error=error, nonce=parent.nonce)
            await self._send(parent.partition, message, ended)
        if (starter := record.starter) is not None:
            await self._send(starter.partition, was_started(record.id, starter), ended)
        asked = (*record.awaited_by, *heard, *await self._unread_requests(ended.partition))
        for by in dict.fromkeys(asked):
            await self._send(by, AwaitedEnded(ended.partition, error=error), ended)

    async def _send(self, partition: str, message: Message, ended: Item) -> None:
        guard = stands(ended)
        await send(partition, message, self.home, self.host, self.sender, self.clock.now_ms(), (guard,))

    async def _unread_requests(self, partition: str) -> list[str]:
        """Who has asked to be told of the end, and was not read any more."""
        sent = items(self.home.store, partition, prefix=AWAIT_PREFIX)
        messages = [decode_message(item.body) async for item in sent if item.status != USED]
        return [message.by for message in messages if isinstance(message, AwaitRequest)]


def stands(ended: Item) -> Update:
    """A write that changes nothing, and is refused if this end was taken back by a retry or its execution deleted. Who
    is told of an end with it is told of no end that another one has followed.

    A worker that lets the children of a terminated execution go adds one to its epoch meanwhile. No other execution
    that was terminated under this id has that epoch: its start adds one, and its end another.
    """
    epoch: Condition = EpochIs(ended.epoch)
    if ended.status == TERMINATED:
        epoch = AnyOf((epoch, EpochIs(ended.epoch + 1)))
    return Update(partition=ended.partition, when=AllOf((epoch, StatusIn((ended.status,)))))


async def let_expire(closed: Item, ended: ExecutionRecord, registry: Registrations, store: Store) -> None:
    """Let the retention run, once all have been told. If the process dies before, the execution stays."""
    assert ended.ended_at is not None
    workflow = registry.workflows.get(ended.workflow)  # there may be no code here
    kept_ms = None if workflow is None else workflow.policy.retention_ms
    if kept_ms is None:
        return
    update = replace(stands(closed), expires_at=ended.ended_at + kept_ms)
    with suppress(Refused):
        await write_for_caller(store, update, ours=lambda _there: False)
