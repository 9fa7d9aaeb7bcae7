"""What a running method of an actor may change beside its fields."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

from msgspec.structs import replace

from holdfast.actors.record import ActorRecord, TimerRecord, key_of
from holdfast.coordination.inbox import STAMPS_PER_MS
from holdfast.kernel.unit import Unit

if TYPE_CHECKING:
    from holdfast.clock import Clock


class Turn(Unit):
    """One run of one method: the timers as it leaves them, and what it sends."""

    __slots__ = ("due_at", "partition", "reads", "settings", "stamp", "state", "timers", "unparked")

    def __init__(
        self,
        partition: str,
        clock: Clock,
        record: ActorRecord,
        chain: tuple[str, ...],
        request: str | None,
        *,
        due_at: int | None = None,
        reads: bool = False,
        unparked: bool = False,
    ) -> None:
        super().__init__((*chain, partition), request, clock)
        self.partition = partition
        self.timers = record.timers
        self.settings = record.settings
        self.stamp = record.stamp
        self.state = b""
        self.due_at = due_at
        self.reads = reads
        self.unparked = unparked

    @property
    def key(self) -> str:
        return key_of(self.partition)

    @staticmethod
    def datetime_of(at_ms: int) -> datetime:
        return datetime.fromtimestamp(at_ms / 1000, UTC)

    def set_timer(self, name: str, record: TimerRecord) -> None:
        """Set, or set anew; the old setting will not fire."""
        self.settings += 1
        self.timers = self.timers | {name: replace(record, set_count=self.settings)}

    def cancel_timer(self, name: str) -> bool:
        """Take a setting back; false if there is none."""
        was_set = name in self.timers
        self.timers = {each: record for each, record in self.timers.items() if each != name}
        return was_set

    def next_stamp(self) -> int:
        """A stamp for a message of this actor, behind all its earlier ones, whichever process sent them (G6)."""
        self.stamp = max(self.stamp + 1, self.now_ms() * STAMPS_PER_MS)
        return self.stamp
