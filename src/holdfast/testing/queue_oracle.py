"""What must hold of queues at every write: no more have begun than may, and none without a slot for its epoch (G15).

It counts by the heads of executions alone, and how many may have begun is what the tests have told the ledger: no
number of the queue itself is believed. That an execution had its slot is looked up in the head of the queue besides.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping

from holdfast.flow.record import QUEUED, GateRecord, decode_gate, name_of
from holdfast.items import HEAD, Item
from holdfast.testing.ledger import Allowed
from holdfast.workflows.record import CLOSED, decode_record

Find = Callable[[str, str], Item | None]


class QueueWatch:
    """The executions of each queue that have begun and have not ended, with their keys."""

    def __init__(self, find: Find) -> None:
        self._find = find
        self.allowed: Mapping[str, Allowed] = {}
        self._begun: dict[str, dict[str, str]] = {}

    def look(self, before: Item | None, head: Item) -> list[str]:
        """The complaints about a head of an execution that is being written."""
        queued = decode_record(head.body).queued
        if queued is None:
            for begun in self._begun.values():
                begun.pop(head.partition, None)
            return []
        begun = self._begun.setdefault(queued.gate, {})
        if head.status in (QUEUED, *CLOSED) or queued.epoch == head.epoch:
            begun.pop(head.partition, None)
            return []
        gate = self._gate(queued.gate)
        found: list[str] = []
        epoch = queued.epoch if before is None else before.epoch
        if before is None or before.status == QUEUED:
            slot = gate.held.get(head.partition)
            if slot is None or slot.epoch != epoch:
                found.append(f"{head.partition} began without a slot for epoch {epoch} (G15)")
        begun[head.partition] = queued.key
        return found + self._too_many(queued.gate)

    def _too_many(self, partition: str) -> list[str]:
        begun, may = self._begun[partition], self.allowed.get(name_of(partition))
        if may is None:
            return [f"{partition}: nobody has said how many may begin: ledger.allow(...)"]
        found = [f"{partition}: {len(begun)} have begun, over {may.limit} (G15)"] if len(begun) > may.limit else []
        if may.limit_per_key is not None:
            most = Counter(begun.values()).most_common(1)[0]
            if most[1] > may.limit_per_key:
                found.append(f"{partition}: {most[1]} of key {most[0]!r} have begun, over {may.limit_per_key} (G15)")
        return found

    def _gate(self, partition: str) -> GateRecord:
        head = self._find(partition, HEAD)
        return GateRecord() if head is None else decode_gate(head.body)
