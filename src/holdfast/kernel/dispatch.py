"""The sweep of a process that is called, and billed by the millisecond: it works on nothing itself, and calls others.

So twenty thousand overdue entities are spread over as many processes as may run, and a sweep takes seconds. It calls
for what is due soon too, each at its time, so that a wait of any length needs no timer of its own: what it takes is
that a sweep comes about once a minute. One that comes late, or that ends early because its time is up, leaves what is
due in its place, which is found by the next.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from holdfast.bounded import Bounded
from holdfast.errors import StoreError, StoreUnusable
from holdfast.items import Item
from holdfast.kernel.backlog_count import BacklogCount, is_parked
from holdfast.kernel.host import Host
from holdfast.kernel.sweep import due_pages
from holdfast.ports import AHEAD_MS, Invoker, WakeUp

FRESH_MS: Final = 5_000
"""What has just become due has its own wake-up on its way."""

AGAIN_MS: Final = 20_000
"""A process that was called for an entity may need this long until it has begun: then another one is called."""

MOST_CALLED: Final = 50_000
"""For how many entities it is remembered when a process was called."""


class Dispatcher:
    """Sweeps, and has ``invoker`` call processes for what is due. One per process that is called."""

    def __init__(self, host: Host, invoker: Invoker) -> None:
        self._host = host
        self._invoker = invoker
        self._called_at = Bounded[str, int](MOST_CALLED)

    async def sweep(self) -> None:
        """Have a process called for every head that is due, at its time if that is soon, and report the backlog.

        What no process could be called for is worked on here. The sweep ends early if the process drains.
        """
        host = self._host
        backlog = BacklogCount(host.clock.now_ms())
        try:
            async for page in due_pages(host, host.clock.now_ms() + AHEAD_MS):
                for head in page.items:
                    backlog.note(head, host.model_of(head.partition))
                await self._dispatch(page.items)
                if host.draining:
                    break
        except StoreUnusable as error:
            host.telemetry.emit("store_unusable", error=str(error))
            return
        except StoreError:
            return  # the next sweep tries again
        if host.home.metered is not None:
            await host.home.metered.refresh()
        host.telemetry.emit("swept", due=backlog.due, oldest_seconds=backlog.oldest_seconds, blocked=backlog.blocked)

    async def _dispatch(self, heads: Sequence[Item]) -> None:
        now = self._host.clock.now_ms()
        wake_ups = [wake_up for head in heads if (wake_up := self._wake_up(head, now)) is not None]
        for wake_up in wake_ups:
            self._called_at[wake_up.partition] = max(now, wake_up.due_at)
        for lost in await self._invoker.call(wake_ups):
            self._called_at.pop(lost.partition, None)
            if lost.due_at <= now and not self._host.draining:
                self._host.check_at(lost.partition, now)

    def _wake_up(self, head: Item, now: int) -> WakeUp | None:
        """The call that a head needs, if it needs one now."""
        model = self._host.model_of(head.partition)
        if model is None or is_parked(head, model):
            return None
        if head.owner is not None:  # its owner works on it, or is dead once its lease has lapsed
            when = head.lease_until or 0
            is_left = when < now
        else:
            when = head.due_at or 0
            is_left = not now - FRESH_MS < when <= now
        called_at = self._called_at.get(head.partition)
        if not is_left or (called_at is not None and now - AGAIN_MS < called_at <= max(when, now)):
            return None
        return WakeUp(head.partition, when if when > now else 0)
