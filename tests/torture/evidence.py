"""What is left when all processes have ended: the file, read as it is, without the engine's own reading code."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

import apsw
import msgspec
from tests.torture.ledger import Effect, Ledger

from holdfast.replay.entries import Entry, decode_entries
from holdfast.workflows.record import ExecutionRecord, decode_record

HEADS: Final = """
SELECT number, partition, status, owner, lease_until, epoch, due_at, body FROM holdfast_heads
WHERE revision IS NOT NULL AND partition LIKE 'wf#%'
"""
ENTRIES: Final = "SELECT head, sort, status, owner, epoch, body FROM holdfast_entries ORDER BY head, sort"
MOVES: Final = "SELECT execution, number FROM moves"


class Segment(NamedTuple):
    """One segment of a journal."""

    run: int
    position: int
    owner: str | None
    epoch: int
    entries: list[Entry]


class Message(NamedTuple):
    """One item of an inbox."""

    sort: str
    status: str


class Execution(NamedTuple):
    """Everything the file holds about one execution."""

    partition: str
    status: str
    owner: str | None
    lease_until: int | None
    epoch: int
    due_at: int | None
    record: ExecutionRecord
    segments: list[Segment]
    inbox: list[Message]

    def entries(self) -> list[Entry]:
        """The entries of the last run, in order, with those that ride in the head."""
        own = [entry for each in self.segments if each.run == self.record.run for entry in each.entries]
        return [*own, *self.record.tail]

    def result(self) -> object:
        """The result as plain JSON; ``None`` if there is none."""
        raw = bytes(self.record.result)
        return msgspec.json.decode(raw) if raw else None

    def error_type(self) -> str:
        return "" if self.record.error is None else self.record.error.type

    def error_message(self) -> str:
        return "" if self.record.error is None else self.record.error.message


class Evidence(NamedTuple):
    """The home's file and the ledger, side by side."""

    executions: dict[str, Execution]
    moves: list[tuple[str, int]]
    effects: list[Effect]
    accepted: list[tuple[str, str, int]]
    integrity: list[str]
    ledger: Ledger

    def effects_of(self) -> dict[str, dict[str, str]]:
        """Label → value, by execution."""
        found: dict[str, dict[str, str]] = {}
        for effect in self.effects:
            found.setdefault(effect.execution, {})[effect.label] = effect.value
        return found


def gather(folder: Path, ledger: Ledger) -> Evidence:
    """Read everything."""
    connection = apsw.Connection(str(folder / "home.db"))
    try:
        by_head: dict[int, list[tuple[str, str, str | None, int, bytes]]] = {}
        for head, *entry in connection.execute(ENTRIES):
            by_head.setdefault(head, []).append(tuple(entry))
        executions = {each.partition: each for each in _executions(connection, by_head)}
        moves = [(str(execution), int(number)) for execution, number in connection.execute(MOVES)]
        integrity = [str(line) for (line,) in connection.execute("PRAGMA integrity_check")]
        integrity += [f"foreign key: {row}" for row in connection.execute("PRAGMA foreign_key_check")]
    finally:
        connection.close()
    return Evidence(executions, moves, ledger.effects(), ledger.accepted(), integrity, ledger)


def _executions(
    connection: apsw.Connection, by_head: dict[int, list[tuple[str, str, str | None, int, bytes]]]
) -> Iterator[Execution]:
    for number, partition, status, owner, lease_until, epoch, due_at, body in connection.execute(HEADS):
        segments: list[Segment] = []
        inbox: list[Message] = []
        for sort, kind, writer, written_under, content in by_head.get(number, ()):
            if sort.startswith("j#"):
                _, run, position = sort.split("#")
                segments.append(Segment(int(run), int(position), writer, written_under, decode_entries(content)))
            else:
                inbox.append(Message(sort, kind))
        record = decode_record(body)
        yield Execution(partition, status, owner, lease_until, epoch, due_at, record, segments, inbox)
