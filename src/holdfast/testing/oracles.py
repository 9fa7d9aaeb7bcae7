"""What must hold at every write and at rest, under any faults: the guarantees, watched from inside the database."""

from __future__ import annotations

import zlib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Final

from msgspec.structs import replace

from holdfast.actors.record import DEPARTURE_PREFIX
from holdfast.backends.memory import MemoryData, MemoryStore
from holdfast.coordination.inbox import INBOX_PREFIX, USED
from holdfast.flow.record import PREFIX as QUEUE_PREFIX
from holdfast.flow.record import QUEUED, decode_gate
from holdfast.items import HEAD, Item, Write, place
from holdfast.ports import Page
from holdfast.references import reference_in
from holdfast.replay.entries import Done, Entry, Failed, decode_entries, standing
from holdfast.replay.journal import SEGMENT_PREFIX
from holdfast.testing.actor_oracles import ActorWatch, Change, actor_unrest, rests
from holdfast.testing.queue_oracle import QueueWatch
from holdfast.testing.virtual_time import Timeline
from holdfast.workflows.launch import gave_up
from holdfast.workflows.record import (
    BLOCKED,
    CANCELLED,
    CLOSED,
    COMPENSATION_FAILED,
    COMPLETED,
    DELETED,
    DERIVED_ID_MARK,
    ENDED,
    FAILED,
    PARTITION_PREFIX,
    PAUSED,
    READY,
    RUNNING,
    SUSPENDED,
    TERMINATED,
    TIMED_OUT,
    decode_record,
    id_of,
    recorded_entries,
)
from holdfast.workflows.runs import count_of

_WAITING: Final = frozenset({RUNNING, PAUSED, TERMINATED})
TRANSITIONS: Final[Mapping[str | None, frozenset[str]]] = {
    # A child may be cancelled before its start has arrived, and a start that has written its place only is given up.
    None: frozenset({QUEUED, READY, RUNNING, CANCELLED, DELETED}),
    QUEUED: frozenset({RUNNING, READY, PAUSED, CANCELLED, TIMED_OUT, TERMINATED}),  # a parent may let its child in
    READY: frozenset(
        {RUNNING, SUSPENDED, BLOCKED, PAUSED, *ENDED}
    ),  # its owner may have kept its lease while it was paused
    RUNNING: frozenset({READY, SUSPENDED, BLOCKED, PAUSED, *ENDED}),
    SUSPENDED: _WAITING | {READY, *ENDED},  # by an end without a claim, or a new run
    BLOCKED: _WAITING | {READY},  # it was resumed
    PAUSED: frozenset({QUEUED, READY, TERMINATED}),
    COMPLETED: frozenset({DELETED}),
    FAILED: frozenset({QUEUED, READY, DELETED}),
    CANCELLED: frozenset({QUEUED, READY, DELETED}),
    TIMED_OUT: frozenset({QUEUED, READY, DELETED}),
    TERMINATED: frozenset({DELETED}),
    COMPENSATION_FAILED: frozenset({QUEUED, READY, DELETED}),
    DELETED: frozenset(),
}
"""The statuses an execution may go to next. A status may always stay as it is."""


LONGEST_TOLD_CHARACTERS: Final = 200
MOST_UNPACKED: Final = 16
"""How many unpacked blobs are kept, for as many looks at the same ones."""

WAITING_PREFIXES: Final = (INBOX_PREFIX, DEPARTURE_PREFIX)


SALT: Final = "simulation"
"""The salt of every simulated home: a run with the same seed has the same keys."""


class WatchedData(MemoryData):
    """A simulated database that checks every change against the guarantees, in the order of the changes."""

    def __init__(self, timeline: Timeline | None = None) -> None:
        super().__init__(SALT)
        self.violations: list[str] = []
        self._timeline = timeline
        self._recorded: dict[tuple[str, str, int], frozenset[str]] = {}
        self._at_work: dict[str, int] = {}
        self.queues = QueueWatch(self._whole_of)

    def set(self, item: Item) -> None:
        """See ``MemoryData.set``."""
        written = self.whole(item)
        if self._timeline is not None:
            self._timeline(item.partition, _told(written))
        there = self.find(item.partition, item.sort)
        before = None if there is None else self.whole(there)
        if item.sort == HEAD:
            self._check_head(before, written)
        is_segment = item.sort.startswith(SEGMENT_PREFIX) and not self._is_cleared(before, written)
        if is_segment:
            self._check_segment(before, written)
        super().set(item)
        if is_segment:
            self._note_recorded(item.partition, _run_of(item))
        elif item.sort == HEAD and item.partition.startswith(PARTITION_PREFIX) and b'"notes"' in written.body:
            self._note_recorded(item.partition, decode_record(written.body).run)

    def _is_cleared(self, before: Item | None, segment: Item) -> bool:
        """Whether a segment is emptied, of an earlier run or of a deleted execution: its place stays taken."""
        head = self.find(segment.partition, HEAD)
        if before is None or head is None or replace(before, body=segment.body) != segment:
            return False
        is_over = head.expires_at is not None or _run_of(segment) < decode_record(self.whole(head).body).run
        return is_over and not decode_entries(segment.body)

    def whole(self, item: Item) -> Item:
        """The item with its body, from the item or from its blob."""
        reference = reference_in(item.body)
        if reference is None:
            return item
        packed = self.blobs[reference.digest].data
        return replace(item, body=_unpacked(packed) if reference.compressed else packed)

    def _whole_of(self, partition: str, sort: str) -> Item | None:
        there = self.find(partition, sort)
        return None if there is None else self.whole(there)

    def remove(self, partition: str, sort: str) -> None:
        """See ``MemoryData.remove``."""
        if self._timeline is not None:
            self._timeline(partition, f"{sort} is removed")
        if sort == HEAD:
            self._at_work.pop(partition, None)  # a new execution there starts with the first epoch
        super().remove(partition, sort)

    def check_segment_at_rest(self, item: Item) -> None:
        """Add an item of a database that was not watched, in the order of its sort keys. What earlier runs have left
        may be partly deleted.
        """
        if item.sort.startswith(SEGMENT_PREFIX) and not self._is_over(item):
            self._check_segment(None, item)
        super().set(item)

    def attempted(self, key: str, process: str, *, excused: bool) -> None:
        """A process performs the operation with this idempotency key. That is wrong if its outcome is in the journal,
        whose end may be in the head, unless the process was overtaken and may not know.

        An owner that performs anything has fenced off earlier owners: none of them may write a segment any more.
        """
        partition, nonce, run, op = _parts_of(key)
        head = self.find(partition, HEAD)
        owns = head is not None and head.owner == process
        if head is not None and owns:
            self._at_work[partition] = head.epoch
        if op in self._recorded.get((partition, nonce, run), ()) and (owns or not excused):
            self.violations.append(f"{key} was performed again after its outcome was recorded (G2)")

    def _check_head(self, before: Item | None, head: Item) -> None:
        if before is not None and head.epoch < before.epoch:
            self._complain(head, f"its epoch went back from {before.epoch} to {head.epoch} (G3)")
        if (head.owner is None) != (head.lease_until is None):
            self._complain(head, f"owner {head.owner} with a lease until {head.lease_until}")
        if head.partition.startswith(PARTITION_PREFIX):
            status = None if before is None or _begins_anew(before, head) else before.status
            if head.status != status and head.status not in TRANSITIONS[status]:
                self._complain(head, f"it went from {status} to {head.status}")
            self.violations += self.queues.look(before, head)

    def _check_segment(self, before: Item | None, segment: Item) -> None:
        if before is not None:
            self._complain(segment, f"segment {segment.sort} was overwritten (G3)")
        if segment.epoch < (at_work := self._at_work.get(segment.partition, 0)):
            self._complain(segment, f"a segment of epoch {segment.epoch} came when epoch {at_work} was at work (G3)")
        run, _, position = segment.sort[len(SEGMENT_PREFIX) :].partition("#")
        if int(position) > 0:
            previous = self.find(segment.partition, f"{SEGMENT_PREFIX}{run}#{int(position) - 1:010d}")
            if previous is None:
                self._complain(segment, f"segment {segment.sort} leaves a gap (G3)")
            elif previous.epoch > segment.epoch:
                self._complain(
                    segment, f"segment {segment.sort} of epoch {segment.epoch} follows epoch {previous.epoch} (G3)"
                )

    def _is_over(self, segment: Item) -> bool:
        head = self.find(segment.partition, HEAD)
        if head is None or not head.partition.startswith(PARTITION_PREFIX):
            return False
        return _run_of(segment) < decode_record(self.whole(head).body).run

    def _note_recorded(self, partition: str, run: int) -> None:
        entries = standing(journal_of(map(self.whole, self.partitions[partition].values()), run))
        head, nonce = self.find(partition, HEAD), ""
        if head is not None:
            record = decode_record(self.whole(head).body)
            nonce = record.nonce
            entries = recorded_entries(record, entries) if record.run == run else entries
        ops = [entry.op for entry in entries if isinstance(entry, Done | Failed)]
        self._recorded[partition, nonce, count_of(run)] = frozenset(ops)
        if len(ops) > len(set(ops)):
            twice = ", ".join(op for op, count in Counter(ops).items() if count > 1)
            self.violations.append(f"{partition}: its journal holds two outcomes of {twice} (G2)")

    def _complain(self, item: Item, text: str) -> None:
        self.violations.append(f"{item.partition}: {text}")


@lru_cache(MOST_UNPACKED)
def _unpacked(packed: bytes) -> bytes:
    """A blob is looked at after every write, and unpacking it takes longer than the write."""
    return zlib.decompress(packed)


def _told(item: Item) -> str:
    """An item as the line of a timeline."""
    if item.sort == HEAD:
        lease = "" if item.owner is None else f", leased to {item.owner} until {item.lease_until}"
        due = "" if item.due_at is None else f", due at {item.due_at}"
        return f"is {item.status}, epoch {item.epoch}, revision {item.revision}{lease}{due}"
    writer = "" if item.owner is None else f" by {item.owner} under epoch {item.epoch}"
    return f"{item.sort}{writer}: {item.body.decode()[:LONGEST_TOLD_CHARACTERS]}"


class WatchedStore(MemoryStore):
    """The store of one process on a ``WatchedData``: the changes of one write are seen together."""

    def __init__(self, data: WatchedData, actors: ActorWatch) -> None:
        super().__init__(data)
        self._watched = data
        self._violations = data.violations
        self._actors = actors

    async def due(self, before: int, *, after: str | None = None, limit: int = 1000) -> Page:
        """As little as the port allows: of the leased heads only those with a due time of their own."""
        page = await super().due(before, after=after, limit=limit)
        return Page(
            tuple(head for head in page.items if head.due_at is not None and head.due_at <= before), page.cursor
        )

    def _apply(self, writes: Sequence[Write]) -> list[Item | None]:
        places = [place(write) for write in writes]
        before = [self._whole(*each) for each in places]
        answers = super()._apply(writes)
        after = [self._whole(*each) for each in places]
        changes = [Change(*each) for each in zip(before, after, strict=True) if each != (None, None)]
        waiting = {partition: self._waiting(partition) for partition, _ in places}
        self._violations += self._actors.look(changes, waiting)
        return answers

    def _waiting(self, partition: str) -> list[Item]:
        entity = self.data.partitions.get(partition, {})
        return [
            self._watched.whole(item)
            for sort, item in entity.items()
            if sort == HEAD or sort.startswith(WAITING_PREFIXES)
        ]

    def _whole(self, partition: str, sort: str) -> Item | None:
        """The item, with its body from the item or from its blob."""
        item = self.data.find(partition, sort)
        return None if item is None else self._watched.whole(item)


def _parts_of(key: str) -> tuple[str, str, int, str]:
    """The partition, nonce, run and operation in an idempotency key: ``wf#name#id/nonce/run/op``. Ids may hold slashes
    too.
    """
    parts = key.split("/")
    for index, part in enumerate(parts[1:], start=1):
        if part.isdigit():
            return "/".join(parts[: index - 1]), parts[index - 1], int(part), "/".join(parts[index + 1 :])
    return key, "", 0, ""


def _begins_anew(before: Item, head: Item) -> bool:
    """Whether another execution starts in the place of one that is gone. Derived ids are used once."""
    if before.status not in CLOSED or before.expires_at is None or head.status not in {QUEUED, READY, RUNNING}:
        return False
    if id_of(head.partition).startswith(DERIVED_ID_MARK) and not gave_up(before.status, before.body):
        return False
    return decode_record(head.body).run == decode_record(before.body).run + 1


def _run_of(segment: Item) -> int:
    return int(segment.sort.removeprefix(SEGMENT_PREFIX).partition("#")[0])


def journal_of(items: Iterable[Item], run: int) -> list[Entry]:
    """The entries of one run's segments, in order, including those that were dropped later."""
    prefix = f"{SEGMENT_PREFIX}{run:06d}#"
    segments = sorted((item for item in items if item.sort.startswith(prefix)), key=lambda item: item.sort)
    return [entry for segment in segments for entry in decode_entries(segment.body)]


def is_quiet(head: Item) -> bool:
    """Whether an execution has ended, or an actor or another entity has nothing to do."""
    if not head.partition.startswith(PARTITION_PREFIX):
        return rests(head)
    return head.status in ENDED and head.due_at is None


def unrest(items: Sequence[Item]) -> list[str]:
    """What is left although everything should have ended: leases, due times, unread messages, open executions."""
    found = [*actor_unrest(items)]
    terminated = set[str]()
    messages: list[Item] = []
    for item in items:
        if item.partition.startswith(QUEUE_PREFIX):
            found += _unrest_of_queue(item)
        if not item.partition.startswith(PARTITION_PREFIX):
            continue
        if item.sort.startswith(INBOX_PREFIX):
            messages.append(item)
        if item.sort != HEAD:
            continue
        if item.status == TERMINATED:
            terminated.add(item.partition)
        if item.status not in ENDED:
            found.append(f"{item.partition} is still {item.status}")
        if item.owner is not None:
            found.append(f"{item.partition} is still leased to {item.owner}")
        if item.due_at is not None:
            found.append(f"{item.partition} is still due at {item.due_at}")
    found += [
        f"{message.partition} left {message.sort} unread"
        for message in messages
        if message.status != USED and message.partition not in terminated
    ]
    return found


def _unrest_of_queue(item: Item) -> list[str]:
    if item.sort != HEAD:  # a place may come late: the next owner of the gate finds that it is of no use
        return []
    return [f"{item.partition} still has a slot for {each}" for each in decode_gate(item.body).held]


def operations_of(items: Iterable[Item], head: Item) -> list[Entry]:
    """The valid entries of an execution's current run."""
    record = decode_record(head.body)
    return standing([*journal_of(items, record.run), *record.tail])
