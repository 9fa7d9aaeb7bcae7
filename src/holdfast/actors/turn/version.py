"""An actor between two calls, and what one call makes of it."""

from __future__ import annotations

from msgspec import Struct
from msgspec.structs import replace

from holdfast.actors.kind import Instance
from holdfast.actors.mailbox.delivery import Delivery, Outcome, Replied
from holdfast.actors.record import ActorRecord, Call, Reply
from holdfast.items import Write


class Version(Struct, frozen=True):
    """The actor between two calls: its record and its state as it is stored. Both change together or not at all."""

    record: ActorRecord
    state: bytes
    deleted: bool = False

    def without_trouble(self, place: str) -> Version:
        """The same without the attempts of a message or timer: it is over."""
        trouble = self.record.trouble
        if place not in trouble:
            return self
        others = {name: each for name, each in trouble.items() if name != place}
        return replace(self, record=replace(self.record, trouble=others))


class Finished(Struct, frozen=True):
    """A delivery that has run: the actor after it, what else is to be written for it, and who is woken then.

    ``reply`` is the one among the writes: a repeat of the call finds it before it is durable.
    """

    delivery: Delivery
    outcome: Outcome
    version: Version
    writes: tuple[Write, ...] = ()
    rings: tuple[str, ...] = ()
    reply: Reply | None = None


class Performed(Struct, frozen=True):
    """What a delivery leaves behind: the actor after it, and what is to be committed for it, in this order.

    ``instance`` is the actor in memory, if it is as ``version`` says. ``again`` is the delivery if it is to be tried
    once more.
    """

    version: Version
    finished: tuple[Finished, ...] = ()
    instance: Instance | None = None
    again: Delivery | None = None


def carried(call: Call, version: Version, writes: tuple[Write, ...] = ()) -> Finished:
    """What is to be committed for a call and answers no caller."""
    return Finished(Delivery(call), Replied(), version, writes)
