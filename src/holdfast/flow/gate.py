"""The gate of a queue in memory: who has a slot, and an index of those that wait. The heads of executions decide."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, NamedTuple

from msgspec import Struct, field

from holdfast.flow.choose import Chooser, Rules, Waiting
from holdfast.flow.record import GateRecord, Slot, count_by_key, since_of
from holdfast.items import Item
from holdfast.kernel.entity import Entity, Unloaded

if TYPE_CHECKING:
    from holdfast.flow.record import Declared
    from holdfast.flow.settings import Purge
    from holdfast.kernel.model import Model


class Told(NamedTuple):
    """Parts of ``Books``."""

    freed_at: int | None
    is_told: bool
    is_due: bool
    awake: bool


class Books(Struct):
    """What the owner of a gate has in memory.

    ``suspects`` are the slots whose executions may have ended, or have not begun. ``came`` are places that this process
    has written. ``lookup``: others may have come from elsewhere. Times are in milliseconds: when all slots were last
    looked at, when all places were last read and for how long, when the last decision was written, and when each
    execution with a slot was last to begin.

    ``purges`` are the orders to end what waits, and when all places were read since. ``purging`` is what they cover, by
    its place, and ``spared`` the places of what was asked to stop and waits on. ``is_told``: the head of the queue has
    the numbers of this code.

    ``early`` are places that came before their executions, and ``early_at`` is when these were last looked for. Old
    places are ``unseen`` until they are known to have an execution, and ``seen`` then.
    ``awake`` is what the head of the queue says, and ``is_due``: it is due. ``rests``: this process is about to release
    it, and what has come since is for the next hold of the lease. ``writing`` is held while the head of the queue is
    being written: each write has all of it, so no two may be under way. ``starting`` are the executions that begin by
    the very write that creates them, and ``freed_at`` is when a slot became free that the head still has.
    ``is_stale``: a wake-up has come since the settings were read. ``is_changed``: this process has changed them since.
    """

    held: dict[str, Slot]
    chooser: Chooser
    suspects: set[str]
    came: list[Waiting]
    lookup: bool = True
    looked_at: int = 0
    scanned_at: int = 0
    scan_ms: int = 0
    decided_at: int = 0
    full: bool = False
    begun_at: dict[str, int] = {}
    purges: tuple[Purge, ...] = ()
    purges_read_at: int | None = None
    purging: dict[str, Waiting] = {}
    spared: set[str] = set()
    is_told: bool = True
    early: dict[str, Waiting] = {}
    early_at: int = 0
    unseen: list[Waiting] = []
    seen: set[str] = set()
    awake: bool = False
    is_due: bool = False
    rests: bool = False
    writing: asyncio.Lock = field(default_factory=asyncio.Lock)
    starting: set[str] = set()
    freed_at: int | None = None
    is_stale: bool = False
    is_changed: bool = False

    @property
    def waiting(self) -> int:
        """How many executions wait."""
        return self.chooser.waiting + len(self.purging) + len(self.early)

    @property
    def waiting_with_news(self) -> int:
        """How many wait, with those that came since the last round. A place may have been read before its writer told
        of it: it counts once, and no more once its execution has its slot.
        """
        came = {each.sort for each in self.came if not (self.chooser.knows(each) or self.has_begun(each))}
        return self.waiting + len(came - self.early.keys())

    def record(self, declared: Declared, *, awake: bool) -> GateRecord:
        """What the head of the queue is to say."""
        return GateRecord(
            held=self.held, arrivals=self.chooser.arrivals, waiting=self.waiting, full=self.full, awake=awake
        ).with_numbers(declared.rules, declared.most_waiting)

    def told(self) -> Told:
        """What the head of the queue says, as far as that is noted here."""
        return Told(self.freed_at, self.is_told, self.is_due, self.awake)

    def tell_again(self, told: Told) -> None:
        """A write of the head was in vain, or is not known to have worked."""
        self.freed_at, self.is_told, self.is_due, self.awake = told

    def put_aside(self, waiting: Waiting, now: int) -> None:
        """The execution of this place is not there yet. It is looked for again (``early``)."""
        if not self.early:
            self.early_at = now
        self.early[waiting.sort] = waiting

    def leave(self, place: str) -> None:
        """What waits at this place, if anything does, waits no more."""
        self.chooser.leave(place)
        self.purging.pop(place, None)
        self.early.pop(place, None)
        self.seen.discard(place)

    def has_begun(self, waiting: Waiting) -> bool:
        """Whether a place is of no use any more, and about to be deleted: what waits there has its slot. If it waits
        again nevertheless, a later look finds it once the slot is free.
        """
        slot = self.held.get(waiting.partition)
        return slot is not None and since_of(waiting.sort) <= slot.since


class Gate(Entity):
    """The gate of one queue, as this process has it in memory."""

    counts = False

    __slots__ = ("books",)

    def __init__(self, partition: str, model: Model) -> None:
        super().__init__(partition, model)
        self.books: Books | None = None

    @property
    def loaded(self) -> bool:
        return self.books is not None

    @property
    def has_news(self) -> bool:
        return self.unread or (self.books is not None and bool(self.books.suspects or self.books.came))

    @property
    def open_books(self) -> Books:
        """What is in memory, in a turn that has loaded it."""
        assert self.books is not None
        return self.books

    def own(self, head: Item, *, created: bool = False, taken_over: bool = False, died: bool = False) -> None:
        """See ``Entity``. What is in memory may be stale: each hold of the lease begins with the store."""
        self.books = None
        super().own(head, created=created, taken_over=taken_over, died=died)
        self.unloaded = Unloaded(head)

    def forget(self) -> None:
        super().forget()
        self.books = None

    @property
    def renewable(self) -> bool:
        return self.held and not (self.books is not None and self.books.writing.locked())  # a decision renews it, too

    def interrupt(self) -> None:
        self.wake()

    def notify(self) -> None:
        """See ``Entity``. It may be for other numbers: nothing begins at once by those in memory."""
        if self.books is not None:
            self.books.is_stale = True
        super().notify()

    # ── Hints from this process ─────────────────────────────────────────────────────────────────────────────────────

    def decides_by(self, head: Item, owner: str) -> bool:
        """Whether this process decides, as the head of the queue shows, and takes in all that has come by now before it
        releases it.
        """
        if not self.held or self.books is None or self.books.rests:
            return False
        ahead = 1 if self.books.writing.locked() else 0  # a decision may be there whose answer is not
        return head.owner == owner and self.epoch <= head.epoch <= self.epoch + ahead

    def has_come(self, waiting: Waiting) -> bool:
        """An execution waits, durably; false if this process does not take that in."""
        if self.books is None or self.books.rests:
            return False
        self.books.came.append(waiting)
        self.wake()
        return True

    def has_other_settings(self) -> None:
        """Settings were changed, durably or perhaps so: nothing is chosen by those in memory. A wake-up follows."""
        if self.books is not None:
            self.books.is_changed = True

    def has_left(self, place: str) -> None:
        """What waited at this place waits no more, durably."""
        if self.books is not None:
            self.books.leave(place)
            self.wake()

    def has_changed(self, partition: str) -> None:
        """An execution with a slot may have ended, or has not begun."""
        if self.books is not None and partition in self.books.held:
            self.books.suspects.add(partition)
            self.wake()


def books_of(head: Item, record: GateRecord, rules: Rules) -> Books:
    """The books of a gate that was just claimed. Each slot is suspect: its execution may have ended long ago."""
    chooser = Chooser(rules, count_by_key(record.held), record.arrivals)
    is_due = head.due_at is not None
    held = dict(record.held)
    return Books(held, chooser, set(held), [], full=record.full, awake=record.awake, is_due=is_due)
