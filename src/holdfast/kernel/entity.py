"""An entity in memory: its program, its journal, what has arrived for it, and this process's hold on it."""

from __future__ import annotations

import asyncio
from collections import deque
from heapq import heappop, heappush

from holdfast.items import Item, Write
from holdfast.kernel.journal import Journal
from holdfast.kernel.program import AnyEffect, Arrival, Effect, Program, Timed


class Entity:
    """One entity that this process has in memory. ``held`` says that we own its lease, under ``epoch``."""

    __slots__ = (
        "_waker",
        "arrivals",
        "broken",
        "effects",
        "epoch",
        "flushing",
        "fresh",
        "handing_over",
        "head",
        "held",
        "journal",
        "lease_until",
        "lost",
        "partition",
        "paused",
        "pending",
        "program",
        "receipts",
        "revision",
        "taken_over",
        "timers",
        "turn",
        "unread",
        "writes",
    )

    def __init__(self, partition: str) -> None:
        self.partition = partition
        self.head: Item | None = None
        self.program: Program | None = None
        self.journal: Journal | None = None
        self.held = self.lost = self.fresh = self.taken_over = self.paused = self.unread = self.handing_over = False
        self.epoch = 0
        self.lease_until = 0
        self.revision = 0
        self.arrivals: deque[Arrival] = deque()
        self.pending: list[AnyEffect] = []
        self.effects: dict[str, asyncio.Task[None]] = {}
        self.timers: list[tuple[int, str]] = []
        self.receipts: dict[str, Write] = {}
        self.writes: list[Write] = []
        self.broken: Exception | None = None
        self.flushing: asyncio.Task[None] | None = None
        self.turn: asyncio.Task[None] | None = None
        self._waker: asyncio.Future[bool] | None = None

    # ── Our hold on it ──────────────────────────────────────────────────────────────────────────────────────────────

    def hold(self, item: Item) -> None:
        """Note what a claim, or our own creation of the head, says."""
        self.unread = self.unread or item.revision != self.revision
        self.held, self.lost, self.paused = True, False, False
        self.lease_until = item.lease_until or 0
        self.epoch, self.revision = item.epoch, item.revision
        self.head = item if self.program is None else None
        if self.journal is not None:
            self.journal.epoch = item.epoch

    def forget(self) -> None:
        """Drop what is in memory; the store has the truth."""
        self.held = False
        self.broken = None
        for task in self.effects.values():
            task.cancel()
        if self.program is not None:
            self.program.evict()
        self.program = self.journal = self.head = None
        for collection in (self.effects, self.arrivals, self.pending, self.timers, self.receipts, self.writes):
            collection.clear()

    # ── Waking its turn ─────────────────────────────────────────────────────────────────────────────────────────────

    def arrive(self, arrival: Arrival) -> None:
        """Take something in and see to it that the turn looks."""
        self.arrivals.append(arrival)
        self.wake()

    def look(self) -> None:
        """The inbox or the head may hold something new."""
        self.unread = True
        self.wake()

    def lose(self) -> None:
        """The lease is no longer ours."""
        self.lost = True
        self.wake()

    def wake(self) -> None:
        if self._waker is not None and not self._waker.done():
            self._waker.set_result(True)

    async def woken(self, timeout_seconds: float | None) -> bool:
        """Wait until ``wake``; false if nothing happened within the time (``None``: however long it takes)."""
        if self.arrivals or self.unread or self.lost or self.broken is not None:
            return True
        loop = asyncio.get_running_loop()
        waker: asyncio.Future[bool] = loop.create_future()
        self._waker = waker
        timer = None if timeout_seconds is None else loop.call_later(timeout_seconds, _give_up, waker)
        try:
            return await waker
        finally:
            self._waker = None
            if timer is not None:
                timer.cancel()

    # ── What it has to do ───────────────────────────────────────────────────────────────────────────────────────────

    @property
    def interrupted(self) -> bool:
        """Whether effects were asked for that this process will not perform."""
        return bool(self.pending) or self.handing_over

    @property
    def busy(self) -> bool:
        """Whether effects or writes are under way."""
        return bool(self.effects) or self.flushing is not None

    def start(self, effect: Effect) -> None:
        """Let an effect happen beside the others."""
        self.effects[effect.op] = asyncio.get_running_loop().create_task(self._perform(effect))

    async def _perform(self, effect: Effect) -> None:
        try:
            came = await effect.perform()
        except Exception as error:  # noqa: BLE001 - the store's, or a mistake of ours: the turn shall not wait for ever
            self.broken = error
            self.wake()
            return
        finally:
            if self.effects.get(effect.op) is asyncio.current_task():
                del self.effects[effect.op]
        match came:
            case Arrival():
                self.arrivals.append(came)
            case Timed(due_at, op):
                self.add_timer(due_at, op)
            case None:
                pass
        self.wake()

    def interrupt(self) -> None:
        """Stop what is under way, so that another process can take it up."""
        self.handing_over = bool(self.effects)
        for task in self.effects.values():
            task.cancel()
        self.effects.clear()
        self.wake()

    def withdraw(self, op: str) -> None:
        """The body no longer waits for this operation."""
        if (task := self.effects.pop(op, None)) is not None:
            task.cancel()
        self.pending = [effect for effect in self.pending if effect.op != op]

    def add_timer(self, due_at: int, op: str) -> None:
        heappush(self.timers, (due_at, op))

    def pop_due(self, now: int) -> list[str]:
        """The operations whose time has come, in the order of their times."""
        due: list[str] = []
        while self.timers and self.timers[0][0] <= now:
            due.append(heappop(self.timers)[1])
        return due

    def next_due(self) -> int | None:
        """The earliest time something is to be done, in milliseconds."""
        while self.timers and self.program is not None and not self.program.wants(self.timers[0][1]):
            heappop(self.timers)
        return self.timers[0][0] if self.timers else None


def _give_up(waker: asyncio.Future[bool]) -> None:
    if not waker.done():
        waker.set_result(False)
