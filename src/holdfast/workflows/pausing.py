"""A paused execution that was looked at: nobody works on it, and nobody is to look at it again in vain (G14)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.coordination.inbox import INBOX_PREFIX, USED
from holdfast.errors import Refused
from holdfast.items import UNOWNED, AllOf, Item, RevisionIs, StatusIn, Update
from holdfast.workflows.record import PAUSED, READY, CancelRequest, decode_message, decode_record

if TYPE_CHECKING:
    from holdfast.kernel.host import Host
    from holdfast.ports import Store


async def rest(head: Item, host: Host) -> None:
    """Let a paused execution be due at its deadline only; go on with one that is past it, or was cancelled, to its end.

    A timer that has come, or a signal, made it due. Neither is lost: who resumes it makes it due now.
    """
    if head.status != PAUSED:
        return
    now = host.clock.now_ms()
    deadline = decode_record(head.body).deadline_at
    partition = head.partition
    as_seen = AllOf((RevisionIs(head.revision), StatusIn((PAUSED,)), UNOWNED))
    ends = (deadline is not None and deadline <= now) or await _is_cancelled(partition, host.home.store)
    if ends:
        update = Update(partition=partition, when=as_seen, status=READY, due_at=now, add_revision=1)
    elif head.due_at != deadline:
        update = Update(partition=partition, when=as_seen, due_at=deadline)
    else:
        return
    try:
        await host.home.store.write(update)
    except Refused:
        return  # it has changed meanwhile, so it is looked at anew
    if ends:
        host.look(partition)


async def _is_cancelled(partition: str, store: Store) -> bool:
    after: str | None = None
    while True:
        page = await store.query(partition, prefix=INBOX_PREFIX, after=after)
        if any(isinstance(decode_message(item.body), CancelRequest) for item in page.items if item.status != USED):
            return True
        if (after := page.cursor) is None:
            return False
