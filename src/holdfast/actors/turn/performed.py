"""An actor between two calls, and what a delivery has left behind: in memory, until it is committed (G4)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Final

from msgspec import Struct
from msgspec.structs import replace

from holdfast.actors.mailbox.marks import with_mark
from holdfast.actors.mailbox.queue import Delivery, Outcome
from holdfast.actors.record import ActorRecord, FailureRecord, Reply
from holdfast.actors.turn.handling import Handled, Handling
from holdfast.items import Write, place

if TYPE_CHECKING:
    from holdfast.actors.kind import Instance

NO_FAILURES: Final = FailureRecord()


class Version(Struct, frozen=True):
    """The actor between two calls: its record and its state as it is stored. Both change together or not at all."""

    record: ActorRecord
    state: bytes
    deleted: bool = False

    def failure_of(self, place: str) -> FailureRecord:
        """How it stands with a message or timer that has failed, or perhaps killed its process."""
        return self.record.failures.get(place, NO_FAILURES)

    def with_failure(self, place: str, failure: FailureRecord, *, halts: bool = False) -> Version:
        """The same with the attempts of a message or timer, at which the actor stops if it ``halts``."""
        changed = self.record.failures | {place: failure}
        return Version(replace(self.record, failures=changed, halted_by=place if halts else None), self.state)

    def without_failure(self, place: str) -> Version:
        """The same without the attempts of a message or timer: it is over."""
        failures = self.record.failures
        if place not in failures:
            return self
        others = {name: each for name, each in failures.items() if name != place}
        return replace(self, record=replace(self.record, failures=others))


class Finished(Struct, frozen=True):
    """A delivery that has run: the actor after it, what else is to be written for it, and who is woken then.

    ``reply`` is the one among the writes: a repeat of the call finds it before it is durable. ``paged`` is the id of a
    message that the commit is to note in its page. ``handled`` is the attempt, if it is traced.
    """

    delivery: Delivery
    outcome: Outcome
    version: Version
    writes: tuple[Write, ...] = ()
    to_wake: tuple[str, ...] = ()
    reply: Reply | None = None
    paged: str = ""
    handled: Handled | None = None


class Performed(Struct, frozen=True):
    """What a delivery leaves behind: the actor after it, and what is to be committed for it, in this order.

    ``instance`` is the actor in memory, if it is as ``version`` says. ``again`` is the delivery if it is to be tried
    once more, ``later`` if it waits for its time.
    """

    version: Version
    finished: tuple[Finished, ...] = ()
    instance: Instance | None = None
    again: Delivery | None = None
    later: Delivery | None = None

    def traced(self, handling: Handling, at: int, outcome: str, error: str = "") -> Performed:
        """The same, with the attempt that a tracer is told of once it is durable."""
        first, *others = self.finished
        return replace(self, finished=(replace(first, handled=Handled(handling, at, outcome, error)), *others))


def writes_of(finished: Iterable[Finished]) -> Iterator[Write]:
    """What is to be written for them, next to the head."""
    return (write for each in finished for write in each.writes)


def marked(performed: Performed, delivery: Delivery, partition: str) -> Performed:
    """The same with the delivery noted in the marks of the actor, if it is numbered and leaves the inbox."""
    sort = delivery.place
    if not delivery.numbered:
        return performed
    places = [[place(write) for write in each.writes] for each in performed.finished]
    last = next((count for count, each in enumerate(places) if (partition, sort) in each), None)
    if last is None:
        return performed
    record, moved = with_mark(performed.version.record, partition, sort)
    version = replace(performed.version, record=record)
    before, found, behind = performed.finished[:last], performed.finished[last], performed.finished[last + 1 :]
    found = replace(found, version=version, writes=(*found.writes, *moved))
    finished = (*before, found, *(replace(each, version=version) for each in behind))
    return replace(performed, version=version, finished=finished)
