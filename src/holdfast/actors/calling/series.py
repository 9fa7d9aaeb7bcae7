"""Calls that a queue of another service delivers in order: together to one turn of the actor, with one commit.

They are not put into the inbox first: the queue keeps them until it is told that they are done. See ``turn.ordered``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from holdfast import ids
from holdfast.actors.calling.dispatch import request_by_mail
from holdfast.actors.mailbox.queue import Later, Replied
from holdfast.actors.turn.entity import ActorEntity

if TYPE_CHECKING:
    from holdfast.actors.address import Address
    from holdfast.actors.mailbox.queue import Outcome
    from holdfast.actors.record import Call
    from holdfast.kernel.runtime import Runtime


class Applied(Struct, frozen=True):
    """How far a series came: the first ``count`` calls are done, durably. The next one failed with ``error``, or is to
    be tried again at ``again_at`` (milliseconds), or was not begun because this process stops; unless all are done.
    """

    count: int
    again_at: int | None = None
    error: BaseException | None = None


async def call_in_series(address: Address, calls: Sequence[Call], runtime: Runtime) -> Applied:
    """Apply calls of one actor in their order, none behind one that fails, and each once (G5).

    Those that fail are to be delivered again, and those behind them too. If another process has the actor, they go to
    its inbox, one after another, and each is waited for. A call that was parked is done.
    """
    entity = None if runtime.host is None else runtime.host.open_entity(address.partition)
    outcomes: Sequence[Outcome | BaseException] = ()
    if isinstance(entity, ActorEntity):
        outcomes = await entity.call_in_series(calls)
    for count, outcome in enumerate(outcomes):
        match outcome:
            case Replied(error=None):
                continue
            case _ if runtime.host is not None and runtime.host.draining:
                # This process stops. Another one is handed the rest when the lease is over that may be left behind.
                return Applied(count, again_at=runtime.clock.now_ms() + runtime.host.limits.lease_ms)
            case Replied(error=error):
                return Applied(count, error=error)
            case Later(again_at):
                return Applied(count, again_at=again_at)
            case BaseException():
                return Applied(count, error=outcome)
            case _:
                return await _by_mail(address, calls, count, runtime)
    return Applied(len(calls)) if outcomes else await _by_mail(address, calls, 0, runtime)


async def _by_mail(address: Address, calls: Sequence[Call], done: int, runtime: Runtime) -> Applied:
    for count, call in enumerate(calls[done:], start=done):
        try:
            outcome = await request_by_mail(address, _asking(call), runtime)
        except Exception as error:  # noqa: BLE001 - the store's, or a full mailbox: the queue delivers it again
            return Applied(count, error=error)
        if outcome.error is not None:
            return Applied(count, error=outcome.error)
    return Applied(len(calls))


def _asking(call: Call) -> Call:
    """The same call with a reply for this attempt alone: what an earlier one was answered may be an error."""
    return replace(call, id=ids.new_id(), known=True, named=False, replies=True)
