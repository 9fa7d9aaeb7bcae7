"""A journaled entity in memory: its program, its journal, what has arrived for it and what it waits for."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from heapq import heappop, heappush

from holdfast.containment import Escaped, is_asked_for
from holdfast.items import Item, Write, one_per_place
from holdfast.kernel.entity import Entity
from holdfast.replay.journal import Journal
from holdfast.replay.program import AnyEffect, Arrival, Effect, Program, Programs, Timed


class JournaledEntity(Entity):
    """One workflow execution that this process has in memory."""

    __slots__ = (
        "arrivals",
        "effects",
        "flushing",
        "handing_over",
        "journal",
        "paused",
        "pending",
        "program",
        "programs",
        "receipts",
        "timers",
        "uncallable",
        "writes",
    )

    def __init__(self, partition: str, programs: Programs) -> None:
        super().__init__(partition, programs)
        self.programs = programs
        self.program: Program | None = None
        self.journal: Journal | None = None
        self.paused = self.handing_over = False
        self.uncallable: str | None = None  # why the version of the code that it wants cannot be called
        self.arrivals: list[Arrival] = []  # a list: an empty deque has ten times the size
        self.pending: list[AnyEffect] = []
        self.effects: dict[str, asyncio.Task[None]] = {}
        self.timers: list[tuple[int, str]] = []
        self.receipts: dict[str, Write] = {}
        self.writes: list[Write] = []
        self.flushing: asyncio.Task[None] | None = None

    @property
    def loaded(self) -> bool:
        return self.program is not None

    @property
    def has_news(self) -> bool:
        return self.unread or bool(self.arrivals)

    def own(self, head: Item, *, created: bool = False, taken_over: bool = False, died: bool = False) -> None:
        """See ``Entity``."""
        super().own(head, created=created, taken_over=taken_over, died=died)
        self.paused = False
        if self.journal is not None:
            self.journal.epoch = head.epoch

    def forget(self) -> None:
        super().forget()
        for task in self.effects.values():
            task.cancel()
        if self.flushing is not None:  # nothing depends on it, and it might try for ever
            self.flushing.cancel()
        if self.program is not None:
            self.program.evict()
        self.program = self.journal = None
        for collection in (self.effects, self.arrivals, self.pending, self.timers, self.receipts, self.writes):
            collection.clear()

    def others(self) -> Sequence[Write]:
        """What is to be written beside the journal: receipts first, which belong to its next entries."""
        return one_per_place((*self.receipts.values(), *self.writes))

    def take_others(self) -> Sequence[Write]:
        """The same, for a write that begins now."""
        writes = self.others()
        self.receipts.clear()
        self.writes.clear()
        return writes

    def arrive(self, arrival: Arrival) -> None:
        """Take something in and see to it that the turn looks."""
        self.arrivals.append(arrival)
        self.wake()

    # ── What it has to do ───────────────────────────────────────────────────────────────────────────────────────────

    @property
    def interrupted(self) -> bool:
        """Whether effects were asked for that this process will not perform: another one will, and so nothing ends."""
        return bool(self.pending) or self.handing_over

    @property
    def has_unwritten(self) -> bool:
        """Whether there is something to write."""
        return bool(self.receipts or self.writes or (self.journal is not None and self.journal.buffer))

    @property
    def busy(self) -> bool:
        """Whether effects or writes are under way."""
        return bool(self.effects) or self.flushing is not None

    def start(self, effect: Effect) -> None:
        """Let an effect happen beside the others, and instead of an older one of the same operation."""
        if (older := self.effects.pop(effect.op, None)) is not None:
            older.cancel()
        self.effects[effect.op] = asyncio.get_running_loop().create_task(self._perform(effect))

    async def _perform(self, effect: Effect) -> None:
        task = asyncio.current_task()
        try:
            came = await effect.perform()
        except BaseException as error:  # the store's, or a mistake of ours: the turn shall not wait for ever
            if is_asked_for(error, task):
                raise
            self.broken = error if isinstance(error, Exception) else Escaped(error)
            self.wake()
            return
        finally:
            if self.effects.get(effect.op) is task:
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

    def is_due(self, now: int) -> bool:
        """Whether a time has come."""
        return bool(self.timers) and self.timers[0][0] <= now

    def pop_due(self, now: int) -> list[str]:
        """The operations whose time has come, in the order of their times, each once.

        One that is under way has moved on without its timer: the wait for it was cut short.
        """
        due: dict[str, None] = {}
        while self.is_due(now):
            due[heappop(self.timers)[1]] = None
        under_way = {*self.effects, *(effect.op for effect in self.pending)}
        return [op for op in due if op not in under_way]

    def next_due(self) -> int | None:
        """The earliest time something is to be done, in milliseconds."""
        while self.timers and self.program is not None and not self.program.wants(self.timers[0][1]):
            heappop(self.timers)
        return self.timers[0][0] if self.timers else None
