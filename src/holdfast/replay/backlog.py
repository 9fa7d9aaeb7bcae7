"""What a journal holds for a body that has not got it yet, and what of it comes next."""

from __future__ import annotations

from collections.abc import Container, Iterable, Sequence
from heapq import heappop, heappush

from holdfast.replay.entries import Delivery, Done, Failed, Replayed, Resumed


class Backlog:
    """Recorded entries in the order of the journal, waiting for the body to ask for them.

    ``strict``: each must be asked for exactly in its turn. Otherwise the earliest one that is asked for comes next; a
    message, which is not asked for, comes only after everything that was recorded before it.
    """

    __slots__ = ("_asked", "_entries", "_first", "_gone", "exhausted", "positions", "strict")

    def __init__(self, entries: Sequence[Replayed], *, strict: bool) -> None:
        self.strict = strict
        self._entries = list(entries)
        self._gone = bytearray(len(entries))
        self._first = 0
        self.exhausted = not entries
        """Whether every entry was delivered or passed over."""
        self.positions: dict[str, int] = {}
        self._asked: list[int] = []  # a heap; `Resumed` needs no asking
        for position, entry in enumerate(entries):
            if isinstance(entry, (Done, Failed)):
                self.positions[entry.op] = position
            elif isinstance(entry, Resumed):
                self._asked.append(position)

    @property
    def first(self) -> Replayed:
        """The earliest entry that was not delivered."""
        return self._entries[self._first]

    def ask(self, op: str) -> Done | Failed | None:
        """The body waits for this operation: its recorded outcome, which comes in its turn."""
        position = self.positions.get(op)
        if position is None:
            return None
        if not self.strict:
            heappush(self._asked, position)
        entry = self._entries[position]
        assert isinstance(entry, (Done, Failed))
        return entry

    def bring_back(self, outcome: Done | Failed) -> None:
        """An outcome that was passed over comes last."""
        self.positions[outcome.op] = len(self._entries)
        self._add(outcome)

    def append(self, message: Delivery) -> None:
        """A message that has just come, and has to wait for what was recorded before it."""
        self._add(message)

    def _add(self, entry: Replayed) -> None:
        self._entries.append(entry)
        self._gone.append(0)
        self.exhausted = False

    def take(self, requested: Container[str]) -> Replayed | None:
        """The entry that comes next, counted as delivered; ``None`` if the body waits for none, or for another one."""
        if self.exhausted:
            return None
        entry = self._entries[self._first]
        if not isinstance(entry, (Done, Failed)) or entry.op in requested:
            if self.strict or not isinstance(entry, Resumed):
                self._leave(self._first)
                return entry
        elif self.strict:
            return None
        while self._asked:
            position = heappop(self._asked)
            entry = self._entries[position]
            if not self._gone[position] and (isinstance(entry, Resumed) or _op(entry) in requested):
                self._leave(position)
                return entry
        return None

    def outcomes(self) -> list[Done | Failed]:
        """All outcomes that were not delivered."""
        left = zip(self._entries[self._first :], self._gone[self._first :], strict=True)
        return [entry for entry, gone in left if not gone and isinstance(entry, (Done, Failed))]

    def pass_over(self, ops: Iterable[str]) -> None:
        """Do not wait for these operations to be asked for."""
        for op in ops:
            self._leave(self.positions[op])

    def is_over(self, op: str) -> bool:
        """Whether the outcome of an operation was delivered or passed over."""
        position = self.positions.get(op)
        return position is not None and bool(self._gone[position])

    def _leave(self, position: int) -> None:
        self._gone[position] = 1
        if position == self._first:
            left = self._gone.find(0, position)
            self.exhausted = left < 0
            self._first = len(self._entries) if self.exhausted else left


def _op(entry: Replayed) -> str:
    return entry.op if isinstance(entry, (Done, Failed)) else ""
