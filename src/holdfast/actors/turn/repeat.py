"""Calls and messages that come once more: they were applied, or parked, and are not run again (G5)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from msgspec import Raw

from holdfast.actors.mailbox.delivery import Delivery, Replied
from holdfast.actors.mailbox.parked import lies_parked
from holdfast.actors.record import Call, Reply, fingerprint_of
from holdfast.actors.turn.reply import find_reply, receipt, replied
from holdfast.actors.turn.version import Finished, Performed, Version

if TYPE_CHECKING:
    from holdfast.actors.turn.entity import Resident
    from holdfast.kernel.runtime import Runtime

NO_REPLY: Final = Raw(b"null")
"""What a message was answered that no caller awaited."""


async def repeated(delivery: Delivery, version: Version, actor: Resident, runtime: Runtime) -> Performed | None:
    """What a delivery leaves behind that has come before; ``None`` if it has not."""
    call = delivery.call
    earlier = await earlier_reply(call, version, actor, runtime) if call.known else None
    if earlier is None and not await _lies_parked(delivery, version, actor, runtime):
        return None
    if earlier is None or earlier.parked:
        runtime.emit("message_repeated", partition=actor.partition, place=delivery.place)
    if earlier is not None and earlier.fingerprint != fingerprint_of(call):
        runtime.emit("message_mismatched", partition=actor.partition, id=call.id)
    outcome = Replied() if earlier is None else replied(earlier, call, actor.partition, runtime)
    version = version.without_trouble(delivery.place)
    finished = Finished(delivery, outcome, version, receipt(delivery, actor.partition))
    return Performed(version, (finished,), actor.instance)


async def earlier_reply(call: Call, version: Version, actor: Resident, runtime: Runtime) -> Reply | None:
    """What a call was answered before, durably or not yet."""
    if call.id in version.record.recent:
        return Reply(fingerprint_of(call), NO_REPLY)
    return actor.replies.get(call.id) or await find_reply(actor.partition, call.id, runtime)


async def _lies_parked(delivery: Delivery, version: Version, actor: Resident, runtime: Runtime) -> bool:
    """Whether this very message was parked: it has come once more, from a sender that had no answer."""
    if delivery.sort is None or delivery.sort > version.record.parked_up_to:
        return False
    return await lies_parked(runtime.home.store, actor.partition, delivery.sort)
