"""The sweep: finds what hints have missed, whichever process died (DESIGN idea 4)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

from holdfast.errors import StoreError, StoreUnusable
from holdfast.hints import Hint, News
from holdfast.items import Item
from holdfast.kernel.backlog_count import BacklogCount, due_at, is_parked
from holdfast.kernel.host import Host, holds
from holdfast.kernel.ownership import BLOCKED_RECHECK_MS
from holdfast.kernel.renewal import renew
from holdfast.paging import Pages
from holdfast.ports import LATE_MS, Page

PURGE_BATCH: Final = 500

LATE_BEATS: Final = 15
"""How often in the time of a lease renewals that are late begin again."""

LOOKED_AT_ONCE: Final = 250
MOST_OF_A_PAGE: Final = 1_000
"""The heads of one page. A worker takes few where a request costs nothing, so that its loop is not held up."""

BACKLOG_MS: Final = 60_000
"""How often a worker whose telemetry has a subscriber looks far enough ahead to report the backlog."""


class Sweeper:
    """Looks for due heads and renews leases, at a steady, slow beat. One per open worker."""

    def __init__(self, host: Host, code: str = "") -> None:
        self._host = host
        self._code = code
        self._beats: list[asyncio.Task[None]] = []
        self._sweeps: set[asyncio.Task[None]] = set()
        self._stopped = False
        self._peers: frozenset[str] = frozenset()
        self._told_at_ms = 0
        self.ruined: asyncio.Future[StoreUnusable] = asyncio.get_running_loop().create_future()
        """What is wrong with the store, once it cannot be used any more: a person must act."""

    async def start(self) -> None:
        """Sweep once, for everything a dead process left behind, then keep the beat."""
        limits = self._host.limits
        self._peers = self._host.home.doorbell.peers()
        horizon_ms, report = max(limits.lease_ms, BLOCKED_RECHECK_MS) + 1, self._is_heard()
        await self.sweep(horizon_ms, just_started=True, report=report, shared=not report)
        loop = asyncio.get_running_loop()
        self._beats = [
            loop.create_task(self._beat(limits.sweep_seconds, self._sweep_again)),
            loop.create_task(self._beat(limits.lease_ms / 3000, self._renew)),
            loop.create_task(self._beat(limits.purge_seconds, self._purge)),
        ]

    def keep_leases(self) -> None:
        """Only extend the leases that are held. The caller says when to sweep."""
        beat = self._beat(self._host.limits.lease_ms / 3000, self._renew)
        self._beats = [asyncio.get_running_loop().create_task(beat)]

    async def stop(self) -> None:
        """Stop the beat, and every sweep: the store is closed soon. After this, ``leave``."""
        self._stopped = True
        tasks = (*self._beats, *self._sweeps)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._host.pace.end()

    async def leave(self) -> None:
        """Leave the share of this worker to the others: one that has stopped takes up nothing."""
        if (sweeps := self._host.home.sweeps) is not None:
            await sweeps.leave()

    def heard(self, hint: Hint) -> None:
        """Another process sent a hint. The open app, which listens, passes it on."""
        self._peers |= self._host.home.doorbell.peers()
        match hint:
            case None:
                self._sweep_all()
            case News(partition):
                _superseded(partition, self._host)
            case partition if _in_memory(self._host, partition):
                self._host.check(partition)
            case partition if self._host.model_of(partition) is not None:
                self._host.check_at(partition, self._host.clock.now_ms() + self._courtesy_ms(partition))
            case _:
                pass

    def _sweep_all(self) -> None:
        if self._stopped:
            return
        sweep = asyncio.get_running_loop().create_task(self.sweep(0))
        self._sweeps.add(sweep)
        sweep.add_done_callback(self._sweeps.discard)

    def _courtesy_ms(self, partition: str) -> int:
        """Workers that hear the same wake-up come one after another, so that the first is not disturbed by the rest."""
        workers = sorted((*self._peers, self._host.home.owner))
        rank = (workers.index(self._host.home.owner) + sum(partition.encode())) % len(workers)
        return rank * self._host.limits.courtesy_ms

    async def _sweep_again(self) -> None:
        doorbell = self._host.home.doorbell
        peers = doorbell.peers()
        a_peer_died = any(not doorbell.alive(peer) for peer in self._peers | peers)
        self._peers = peers
        horizon_ms = int(self._host.limits.sweep_seconds * 1000)
        horizon_ms = self._host.limits.lease_ms + 1 if a_peer_died else horizon_ms
        report = self._is_heard()
        await self.sweep(horizon_ms, report=report, shared=not report)  # what is reported is about the whole home

    def _is_heard(self) -> bool:
        """Whether telemetry has a subscriber that was not told of the backlog just now."""
        now = self._host.clock.now_ms()
        return self._host.telemetry.is_heard and now - self._told_at_ms >= BACKLOG_MS

    async def sweep(
        self, horizon_ms: int, *, just_started: bool = False, report: bool = False, shared: bool = False
    ) -> None:
        """Look at every head that is due, or will be within the horizon, and at the leases of the dead.

        A worker that has just started also looks at blocked heads at once: it may have the code they wait for. Parked
        heads are left alone. With ``report`` blocked and parked heads are counted too, and telemetry gets the counts.
        If it is ``shared``, and the home divides sweeps, this one looks at the share of this worker.
        """
        now = self._host.clock.now_ms()
        before = now + horizon_ms
        until = max(before, now + BLOCKED_RECHECK_MS) if report else before
        backlog = BacklogCount(now)
        living: dict[str, bool] = {}
        try:
            async for page in self._pages(until, shared=shared, just_started=just_started):
                for head in page.items:
                    model = self._host.model_of(head.partition)
                    backlog.note(head, model)
                    if due_at(head) > before or is_parked(head, model):
                        continue
                    if model is not None and just_started and head.status == model.blocked:
                        self._host.check(head.partition)
                    elif model is not None:
                        self._consider(head, living)
                await asyncio.sleep(0)  # a store on a file answers at once: others come in between two pages
        except StoreUnusable as error:
            self._host.telemetry.emit("store_unusable", error=str(error))
            if not self.ruined.done():
                self.ruined.set_result(error)
            return
        except StoreError:
            return  # the next beat tries again
        if report:
            self._told_at_ms = now
            if (metered := self._host.home.metered) is not None:
                await metered.refresh()
            self._host.telemetry.emit(
                "swept", due=backlog.due, oldest_seconds=backlog.oldest_seconds, blocked=backlog.blocked
            )

    def _pages(self, until: int, *, shared: bool, just_started: bool) -> Pages[Page]:
        host = self._host
        if not shared or (sweeps := host.home.sweeps) is None:
            return due_pages(host, until, MOST_OF_A_PAGE if host.home.writes_are_paid else LOOKED_AT_ONCE)
        code, began = self._code, just_started
        return Pages(lambda after: sweeps.due(until, after=after, code=code, has_room=host.has_room, is_new=began))

    def _consider(self, head: Item, living: dict[str, bool]) -> None:
        host = self._host
        if holds(host, head.partition):
            return
        if head.owner is None:
            host.check_at(head.partition, (head.due_at or 0) + (0 if _in_memory(host, head.partition) else 1))
            return
        if head.owner not in living:
            living[head.owner] = host.home.doorbell.alive(head.owner)
        if head.owner == host.home.owner or not living[head.owner]:
            host.check(head.partition)
        elif not self._leaves_to_next_sweep(head):
            host.check_at(head.partition, (head.lease_until or 0) + 1)

    def _leaves_to_next_sweep(self, head: Item) -> bool:
        """Whether the lease of a head that lasts is left to the next sweep, which sees whether it was renewed. Where
        writes are paid, a claim that is refused is dearer than a look; sweeps that are far apart do not wait for it.
        """
        host, limits = self._host, self._host.limits
        is_near = limits.sweep_seconds * 1000 <= limits.lease_ms
        return host.home.writes_are_paid and is_near and (head.lease_until or 0) >= host.clock.now_ms()

    async def _renew(self) -> None:
        """Renew what is held; after that was late once more, and soon: those leases have not long to go."""
        await renew(self._host)
        while not self._host.pace.is_kept:
            await asyncio.sleep(self._host.limits.lease_ms / LATE_BEATS / 1000)
            await renew(self._host)

    async def _purge(self) -> None:
        purges = self._host.home.purges
        more = PURGE_BATCH
        while purges is not None and more:
            more = await purges.purge(self._host.clock.now_ms() - LATE_MS, PURGE_BATCH)

    async def _beat(self, seconds: float, work: Callable[[], Awaitable[None]]) -> None:
        while True:
            await asyncio.sleep(seconds)
            try:
                await work()
            except Exception as error:  # noqa: BLE001 - without its beat a worker loses its leases: report and go on
                self._host.telemetry.emit("beat_failed", error=repr(error))


def due_pages(host: Host, until: int, limit: int = MOST_OF_A_PAGE) -> Pages[Page]:
    """The heads that are due by then (milliseconds), page by page. Raises like ``Store.due``."""
    return Pages(lambda after: host.home.store.due(until, after=after, limit=limit))


def _superseded(partition: str, host: Host) -> None:
    """Another process has worked on an entity: what is in memory of it here is of no more use. There is nothing to do
    for it, so nothing is claimed.
    """
    host.wakeups.cancel(partition)
    entity = host.entities.get(partition)
    if entity is None:
        return
    if entity.turn is None and not entity.has_news:
        host.forget(entity)
    else:
        entity.notify()  # it is ours, or is about to be: its turn finds out who owns it


def _in_memory(host: Host, partition: str) -> bool:
    entity = host.entities.get(partition)
    return entity is not None and entity.loaded
