"""What a process has in memory of a journaled entity: its program, its journal, and what is under way for it."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from heapq import heappop, heappush
from types import MappingProxyType
from typing import Final

from holdfast.items import Write, one_per_place
from holdfast.replay.journal import Journal
from holdfast.replay.program import AnyEffect, Arrival, Contested, Program

NO_EFFECTS: Final[dict[str, asyncio.Task[None]]] = {}
NO_RECEIPTS: Final[Mapping[str, Write]] = MappingProxyType({})
"""Those of entities that rest, which share them: sleepers are many. The first that is added makes another."""


class Work:
    """A program that was replayed, and what goes in and out of it.

    ``arrivals`` are to be delivered to it next. It has asked for the ``pending`` effects, which begin once what it did
    before is durable; ``effects`` are under way. ``receipts`` and ``writes`` go with the next entries of the journal.
    ``flushing`` is a write of the journal that nothing waits for.
    """

    __slots__ = (
        "arrivals",
        "effects",
        "flushing",
        "journal",
        "pending",
        "program",
        "receipts",
        "timers",
        "writes",
    )

    def __init__(self, program: Program, journal: Journal) -> None:
        self.program = program
        self.journal = journal
        self.arrivals: list[Arrival] | tuple[()] = ()
        self.pending: list[AnyEffect | Contested] | tuple[()] = ()
        self.effects = NO_EFFECTS
        self.timers: list[tuple[int, str]] = []
        self.receipts = NO_RECEIPTS
        self.writes: tuple[Write, ...] = ()
        self.flushing: asyncio.Task[None] | None = None

    def drop(self) -> None:
        """End it all: the store has the truth."""
        if self.effects:
            self.cancel_effects()
        if self.flushing is not None:  # nothing depends on it, and it might try for ever
            self.flushing.cancel()
        self.program.evict()

    # ── What is to be written ───────────────────────────────────────────────────────────────────────────────────────

    @property
    def has_unwritten(self) -> bool:
        """Whether there is something to write."""
        return bool(self.receipts or self.writes or self.journal.buffer)

    def others(self) -> Sequence[Write]:
        """What is to be written with the journal: receipts first, which belong to its next entries."""
        if not (self.receipts or self.writes):
            return ()
        return one_per_place((*self.receipts.values(), *self.writes))

    def take_others(self) -> Sequence[Write]:
        """The same, for a write that begins now."""
        writes = self.others()
        self.receipts, self.writes = NO_RECEIPTS, ()
        return writes

    def rested(self) -> None:
        """The entity was released, and its head holds what no segment does; the others were written with it."""
        self.journal.rested()
        self.take_others()
        if not self.effects:
            self.effects = NO_EFFECTS
        self.program.saved()

    # ── What comes in ───────────────────────────────────────────────────────────────────────────────────────────────

    def arrive(self, *arrivals: Arrival) -> None:
        """Let these be delivered next, behind those that have come before."""
        self.arrivals = self.arrivals or []
        self.arrivals += arrivals

    def ask(self, *effects: AnyEffect | Contested) -> None:
        """Let these begin once what the program did before is durable."""
        self.pending = self.pending or []
        self.pending += effects

    # ── What happens outside ────────────────────────────────────────────────────────────────────────────────────────

    @property
    def busy(self) -> bool:
        """Whether effects or writes are under way."""
        return bool(self.effects) or self.flushing is not None

    def begin(self, op: str, task: asyncio.Task[None]) -> None:
        """An effect is under way, instead of an older one of the same operation."""
        if (older := self.effects.get(op)) is not None:
            older.cancel()
        self.effects = self.effects or {}
        self.effects[op] = task

    def withdraw(self, op: str) -> None:
        """The body no longer waits for this operation."""
        if (task := self.effects.pop(op, None)) is not None:
            task.cancel()
        self.pending = [effect for effect in self.pending if effect.op != op] or ()

    def cancel_effects(self) -> None:
        """Stop all that is under way."""
        for task in self.effects.values():
            task.cancel()
        self.effects.clear()

    # ── When there is something to do ───────────────────────────────────────────────────────────────────────────────

    def add_timer(self, due_at: int, op: str) -> None:
        """Let the program hear of an operation at a time, in milliseconds."""
        heappush(self.timers, (due_at, op))

    def is_due(self, now: int) -> bool:
        """Whether a time has come."""
        return bool(self.timers) and self.timers[0][0] <= now

    def pop_due(self, now: int) -> list[tuple[int, str]]:
        """The operations whose time has come, in the order of their times, each once, with these times.

        One that is under way has moved on without its timer: the wait for it was cut short.
        """
        due: dict[str, int] = {}
        while self.timers and self.timers[0][0] <= now:
            due_at, op = heappop(self.timers)
            due.setdefault(op, due_at)
        for op in self.effects:
            due.pop(op, None)
        for effect in self.pending:
            due.pop(effect.op, None)
        return [(due_at, op) for op, due_at in due.items()]

    def next_due(self) -> int | None:
        """The earliest time something is to be done, in milliseconds."""
        while self.timers and not self.program.wants(self.timers[0][1]):
            heappop(self.timers)
        return self.timers[0][0] if self.timers else None
