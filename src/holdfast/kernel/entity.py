"""An entity in memory, and this process's hold on it: what workflow executions and actors share."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from holdfast.items import Item

if TYPE_CHECKING:
    from holdfast.kernel.model import Model


class Entity:
    """One entity that this process has in memory. ``held`` says that we own its lease, under ``epoch``.

    ``due_at`` is when the head has somebody look, in milliseconds; who rings makes it now. As long as we hold the
    lease it is never later than what was accepted: who dies is found by it (G1).

    ``unread``: the head or the inbox may hold something new. ``missed``: a wake-up has come, and what it was for may
    have come after all that its turn has asked the store for. ``confirmed``: a claim has just shown the head. ``lost``:
    the lease is not ours any more. ``fresh``: it was created here just now. ``taken_over``: its last owner did not
    release it, and may still be awake. ``died``: that was another process, which must be dead.
    """

    __slots__ = (
        "_waker",
        "broken",
        "confirmed",
        "died",
        "due_at",
        "epoch",
        "fresh",
        "head",
        "held",
        "lease_until",
        "lost",
        "missed",
        "model",
        "partition",
        "revision",
        "taken_over",
        "turn",
        "unread",
    )

    def __init__(self, partition: str, model: Model) -> None:
        self.partition = partition
        self.model = model
        self.head: Item | None = None
        self.held = self.lost = self.fresh = self.taken_over = self.died = False
        self.unread = self.missed = self.confirmed = False
        self.epoch = 0
        self.due_at: int | None = None
        self.lease_until = 0
        self.revision = 0
        self.broken: Exception | None = None
        self.turn: asyncio.Task[None] | None = None
        self._waker: asyncio.Future[bool] | None = None

    # ── Our hold on it ──────────────────────────────────────────────────────────────────────────────────────────────

    @property
    def loaded(self) -> bool:
        """Whether its state is in memory."""
        raise NotImplementedError

    @property
    def has_news(self) -> bool:
        """Whether something has come that no turn has looked at yet."""
        return self.unread

    @property
    def renewable(self) -> bool:
        """Whether its lease is ours to extend now."""
        return self.held

    def hold(self, item: Item) -> None:
        """Note what a claim, or our own creation of the head, says."""
        self.unread = self.unread or item.revision != self.revision
        self.held, self.confirmed, self.lost = True, True, False
        self.due_at = item.due_at
        self.lease_until = item.lease_until or 0
        self.epoch, self.revision = item.epoch, item.revision
        self.head = None if self.loaded else item

    def forget(self) -> None:
        """Drop what is in memory; the store has the truth."""
        self.held = False
        self.broken = self.head = None

    def unload(self) -> None:
        """Drop what the store has told: it may have changed. What waits for the entity in this process stays."""
        self.forget()

    def interrupt(self) -> None:
        """Stop what is under way, so that another process can take it up."""
        raise NotImplementedError

    # ── Waking its turn ─────────────────────────────────────────────────────────────────────────────────────────────

    def notify(self) -> None:
        """The inbox or the head may hold something new."""
        self.missed = self.unread = True
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
        if self.has_news or self.lost or self.broken is not None:
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


def _give_up(waker: asyncio.Future[bool]) -> None:
    if not waker.done():
        waker.set_result(False)
