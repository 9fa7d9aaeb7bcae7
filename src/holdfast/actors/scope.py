"""What a running method of an actor may change next to its fields."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from datetime import UTC, datetime
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from msgspec import Raw
from msgspec.structs import replace

from holdfast import ids
from holdfast.actors.record import (
    DEPARTURE_PREFIX,
    ActorRecord,
    Departure,
    TimerRecord,
    actor_of,
    describe_partition,
    encode,
    key_of,
)
from holdfast.coordination.inbox import STAMPS_PER_MS, inbox_sort, stamp_of
from holdfast.coordination.lease import Fenced
from holdfast.errors import InvalidInput, InvalidState
from holdfast.items import ABSENT, Item, Put, Write, one_per_place
from holdfast.kernel.identity import Identity
from holdfast.kernel.unit import Unit

if TYPE_CHECKING:
    from holdfast.actors.limited import Limited
    from holdfast.coordination.inbox import Sender
    from holdfast.items import Bounds
    from holdfast.kernel.runtime import Runtime


OWN_WRITES: Final = 5
"""How many writes go with a call at most, those that it sends not counted: the head, the reply, the receipt, and some
room."""


class LeaseNeeded(Fenced):
    """A run without a lease has called another actor. Keep nothing of it, and run the method under a lease."""

    def __init__(self, partition: str) -> None:
        super().__init__(f"{partition} calls another actor, and holds no lease: the method runs again under one")


class Turn(Unit):
    """One run of one method: the timers as it leaves them, and what it sends.

    ``pending_heads`` are those that earlier runs of the actor are going to put, and have not yet. ``called`` are the
    replies that are kept for it, if it ``keeps`` any: it may run again at any time. ``leased``: the actor is owned, so
    nothing but this process changes it before the commit.
    """

    __slots__ = (
        "_pending_heads",
        "called",
        "due_at",
        "keeps",
        "leased",
        "needs_lease",
        "partition",
        "reads",
        "run",
        "settings",
        "stamp",
        "timers",
    )

    def __init__(  # noqa: PLR0913 - what a run begins with
        self,
        partition: str,
        runtime: Runtime,
        record: ActorRecord,
        chain: tuple[str, ...],
        identity: Identity | None,
        *,
        fence: int | None = None,
        due_at: int | None = None,
        reads: bool = False,
        keeps: bool = False,
        leased: bool = True,
        pending_heads: Mapping[str, Item] = MappingProxyType({}),
    ) -> None:
        super().__init__((*chain, partition), identity, runtime.clock, runtime.home, fence)
        self._pending_heads = pending_heads
        self.partition = partition
        self.timers = record.timers
        self.settings = record.settings
        self.stamp = record.stamp
        self.run: Limited[Any] | None = None
        self.due_at = due_at
        self.reads = reads
        self.keeps = keeps
        self.leased = leased
        self.needs_lease = False
        self.called: dict[tuple[str, str], None] = {}

    def head_to_be(self, partition: str) -> Item | None:
        return super().head_to_be(partition) or self._pending_heads.get(partition)

    def add(self, partition: str, *writes: Write) -> None:
        self.refuse_if_reading()
        super().add(partition, *writes)

    def departs(self, partition: str) -> bool:
        """See ``Unit.departs``: where writes are billed, a commit of an actor is no transaction with another one."""
        return self._home.writes_are_paid and partition != self.partition

    def depart(self, to: str, sort: str, body: bytes) -> None:
        """See ``Unit.depart``. No two items that an actor sends have one stamp, so their places differ here too."""
        self.refuse_if_reading()
        self.refuse_if_closed()
        place = DEPARTURE_PREFIX + stamp_of(sort)
        self.writes.append(Put(Item(self.partition, place, body=encode(Departure(to, sort, Raw(body)))), ABSENT))

    def close(self) -> None:
        super().close()
        self.run = None

    def refuse_if_reading(self) -> None:
        """Raise ``InvalidState`` in a method that only reads: whatever it asked for would not be kept."""
        if self.reads:
            raise InvalidState(
                f"a method declared with @hf.read of {describe_partition(self.partition)} calls, sends, starts or sets "
                "something: it may only read. Remove @hf.read from it"
            )

    def refuse_without_lease(self) -> None:
        """Raise ``LeaseNeeded`` before another actor is called by a run that may be overtaken.

        The call would be durable at once. The next run, on a newer state, may call with other arguments: that is
        another call, and both would be applied.
        """
        if not self.leased:
            self.needs_lease = True
            raise LeaseNeeded(self.partition)

    def refuse_if_too_much(self, bounds: Bounds | None) -> None:
        """Raise ``InvalidInput`` if what it sends is more than one commit of the home takes."""
        if bounds is None:
            return
        writes = one_per_place(self.writes)
        if not bounds.fit(writes, besides=OWN_WRITES):
            raise InvalidInput(
                f"one call of {actor_of(self.partition)} sends {len(writes)} writes, and this home commits at most "
                f"{bounds.writes - OWN_WRITES} of them, and {bounds.body_bytes:,} bytes, with the state. Send less in "
                "one call: a message to itself can go on"
            )

    def waiting(self) -> AbstractContextManager[None]:
        """See ``Unit.waiting``: the method's own time stands still."""
        return nullcontext() if self.run is None else self.run.paused()

    def note_call(self, partition: str, reply: str) -> None:
        """What it has called was applied, and has a reply there."""
        if self.keeps:
            self.called[partition, reply] = None

    @property
    def key(self) -> str:
        return key_of(self.partition)

    @staticmethod
    def datetime_of(at_ms: int) -> datetime:
        return datetime.fromtimestamp(at_ms / 1000, UTC)

    def set_timer(self, name: str, record: TimerRecord) -> None:
        """Set, or set again; the old setting will not fire."""
        self.refuse_if_reading()
        self.refuse_if_closed()
        self.settings += 1
        self.timers = self.timers | {name: replace(record, set_count=self.settings)}

    def cancel_timer(self, name: str) -> bool:
        """Take a setting back; false if there is none."""
        self.refuse_if_reading()
        self.refuse_if_closed()
        was_set = name in self.timers
        self.timers = {each: record for each, record in self.timers.items() if each != name}
        return was_set

    def next_sort(self, sender: Sender) -> str:  # noqa: ARG002 - an actor, not its process, is the sender
        """See ``Unit.next_sort``: places of one actor go on where its last process stopped."""
        return inbox_sort(self.next_stamp(), ids.fingerprint(self.partition.encode()))

    def next_stamp(self) -> int:
        """A stamp for a message of this actor, behind all its earlier ones, whichever process sent them (G6)."""
        self.stamp = max(self.stamp + 1, self.now_ms() * STAMPS_PER_MS)
        return self.stamp
