"""An entity in memory, and this process's hold on it: what workflow executions and actors share."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, ClassVar

from msgspec import Struct

from holdfast.items import Item
from holdfast.kernel.patience import Patience

if TYPE_CHECKING:
    from holdfast.kernel.model import Model

# ── What this process knows of its lease ────────────────────────────────────────────────────────────────────────────


class Unowned(Struct, frozen=True, gc=False):
    """Not ours. The epoch and the revision of the head are as we left it, if it was ours before."""

    epoch: int = 0
    revision: int = 0


class Owned(Struct, frozen=True, gc=False):
    """Ours, under this epoch. ``revision`` is that of the head as the turn has read it.

    ``due_at`` is when the sweep checks the head, in milliseconds; a wake-up makes it now. As long as we own the entity
    it is never later than what was accepted: if this process dies, the entity is found by it (G1).
    """

    epoch: int
    revision: int
    lease_until: int
    due_at: int | None


class Lost(Struct, frozen=True, gc=False):
    """The lease was ours under this epoch. It could not be renewed, or what was written under it may be missing."""

    epoch: int
    revision: int


Hold = Unowned | Owned | Lost


class Told(Struct, frozen=True):
    """The head's body as a renewal shall leave it. ``written`` is called when the store has it."""

    body: bytes
    written: Callable[[], None]


class Unloaded(Struct, frozen=True, gc=False):
    """The head of an entity that is ours and is not loaded yet.

    ``created``: this process has just created it, and nothing has come for it. ``taken_over``: its last owner did not
    release it, and may still be awake. ``died``: that was another process, which must be dead.
    """

    head: Item
    created: bool = False
    taken_over: bool = False
    died: bool = False


class Entity:
    """One entity that this process has in memory.

    ``unread``: the head or the inbox may hold something new. ``missed``: a wake-up has come, and what it was for may
    have come after all that its turn has asked the store for. ``broken``: what has failed concurrently with the turn.
    """

    counts: ClassVar[bool] = True
    """Whether its turn is one of the ``limits.running``. One that lasts as long as others run must not be."""

    __slots__ = ("_patience", "_waker", "broken", "hold", "missed", "model", "partition", "turn", "unloaded", "unread")

    def __init__(self, partition: str, model: Model) -> None:
        self.partition = partition
        self.model = model
        self.hold: Hold = Unowned()
        self.unloaded: Unloaded | None = None
        self.unread = self.missed = False
        self.broken: Exception | None = None
        self.turn: asyncio.Task[None] | None = None
        self._waker: asyncio.Future[bool] | None = None
        self._patience: Patience | None = None

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
    def has_callers(self) -> bool:
        """Whether callers of this process wait for it, whom no other process can answer."""
        return False

    @property
    def renewable(self) -> bool:
        """Whether its lease is ours to extend now."""
        return self.held

    @property
    def held(self) -> bool:
        """Whether its lease is ours, as far as is known."""
        return isinstance(self.hold, Owned)

    @property
    def lost(self) -> bool:
        """Whether its lease was ours, and is not any more."""
        return isinstance(self.hold, Lost)

    @property
    def epoch(self) -> int:
        """The fencing token under which it is ours, or was."""
        return self.hold.epoch

    def own(self, head: Item, *, created: bool = False, taken_over: bool = False, died: bool = False) -> None:
        """It is ours, as the head says that a claim, or our own creation of it, has left."""
        self.unread = self.unread or head.revision != self.hold.revision
        self.hold = Owned(head.epoch, head.revision, head.lease_until or 0, head.due_at)
        self.unloaded = None if self.loaded else Unloaded(head, created, taken_over, died)

    def advance(self, epoch: int, revision: int, lease_until: int, due_at: int | None) -> Owned:
        """A write of ours has left its head like this. If it has not, ``lose`` says so. Returns our hold on it now."""
        self.hold = hold = Owned(epoch, revision, lease_until, due_at)
        return hold

    def tells(self) -> Told | None:
        """What a renewal of its lease takes along, for those who look at it from outside; ``None``: nothing is new."""
        return None

    def release(self) -> None:
        """A write of ours has released it, or it is to be claimed again. What is in memory stays valid until another
        process claims it.
        """
        self.hold = Unowned(self.hold.epoch, self.hold.revision)

    def lose(self) -> None:
        """The lease is no longer ours."""
        if isinstance(self.hold, Owned):
            self.hold = Lost(self.hold.epoch, self.hold.revision)
        self.wake()

    def forget(self) -> None:
        """Drop what is in memory; the store has the truth."""
        if not isinstance(self.hold, Unowned):
            self.release()
        self.broken = self.unloaded = None

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

    def wake(self) -> None:
        """Have its turn see what there is to do."""
        if self._waker is not None and not self._waker.done():
            self._waker.set_result(True)

    async def woken(self, timeout_seconds: float | None) -> bool:
        """Wait until ``wake``; false if nothing happened within the time (``None``: however long it takes)."""
        if self.broken is not None or isinstance(self.hold, Lost) or self.has_news:
            return True
        waker: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        self._waker = waker
        patience = None
        if timeout_seconds is not None:
            patience = self._patience = self._patience or Patience(self._give_up)
            patience.begin(timeout_seconds)
        try:
            return await waker
        finally:
            self._waker = None
            if patience is not None:
                patience.rest()

    def _give_up(self) -> None:
        if self._waker is not None and not self._waker.done():
            self._waker.set_result(False)

    def wait_no_more(self) -> None:
        """Its turn has ended."""
        if self._patience is not None:
            self._patience.stop()
            self._patience = None
