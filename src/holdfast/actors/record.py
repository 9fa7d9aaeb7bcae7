"""What the store holds about an actor: the head's statuses and body, its messages, and the replies it has given."""

from __future__ import annotations

from typing import Final

import msgspec
from msgspec import Raw, Struct

from holdfast import ids, keys
from holdfast.codec.stored import stored
from holdfast.coordination.schedule import Missed, Schedule
from holdfast.failure import ErrorRecord

PARTITION_PREFIX: Final = keys.ACTORS

HIDDEN_MARK: Final = "!"
"""How the names of actors begin that are part of something else: they are listed only where they are asked for."""

READY: Final = "READY"
RUNNING: Final = "RUNNING"
SUSPENDED: Final = "SUSPENDED"
BLOCKED: Final = "BLOCKED"
HALTED: Final = "HALTED"
DELETED: Final = "DELETED"

CLAIMABLE: Final = (READY, RUNNING, SUSPENDED, BLOCKED)
LISTENING: Final = (*CLAIMABLE, HALTED)
"""The statuses in which an actor has a mailbox. A deleted one begins again with its next message."""

REPLY_PREFIX: Final = "r#"
PARKED_PREFIX: Final = "p#"
DEPARTURE_PREFIX: Final = "o#"

TAKEN: Final = "~"
"""The end of the place of a delayed message that its receiver has noted in its marks: it is no repeat, whatever they
say. It moves there from the place that its sender has put it in."""

NO_VALUE: Final = Raw()
"""Stands where there is no encoded value at all; an encoded ``None`` is ``null``."""

DELETE_METHOD: Final = "!delete"
"""The message that ends an actor."""

NOT_BEGUN: Final = Raw(b"null")
"""The state of an actor that has ended, or not begun yet."""


def partition_of(actor: str, key: str) -> str:
    """The partition of an actor: keys are unique per class of actors."""
    return f"{PARTITION_PREFIX}{actor}#{key}"


def actor_of(partition: str) -> str:
    """The name of the actor's class, from a partition of ours."""
    return partition[len(PARTITION_PREFIX) :].partition("#")[0]


def key_of(partition: str) -> str:
    """The actor's key, from a partition of ours."""
    return partition[len(PARTITION_PREFIX) :].partition("#")[2]


def describe_partition(partition: str) -> str:
    """An actor as people name it, for messages."""
    return f"{actor_of(partition)} {key_of(partition)!r}"


class TimerRecord(Struct, frozen=True, omit_defaults=True, kw_only=True):
    """A timer that is set: call ``method`` at ``due_at`` (milliseconds), and again as ``schedule`` says if there is
    one.

    ``missed`` says what becomes of ticks that no worker was there to run. ``set_count`` tells one setting of a timer
    from the next. ``naming`` is that of the call it makes.
    """

    method: str
    due_at: int
    set_count: int
    args: Raw
    schedule: Schedule | None = None
    missed: Missed = Missed.ONCE
    naming: int = 0


TIMER_PREFIX: Final = "timer:"


def timer_place(name: str) -> str:
    """What stands for a timer among the places of messages."""
    return TIMER_PREFIX + name


def timer_of(place: str) -> str | None:
    """The name of the timer that a place stands for, if it does."""
    return place.removeprefix(TIMER_PREFIX) if place.startswith(TIMER_PREFIX) else None


class FailureRecord(Struct, frozen=True, omit_defaults=True):
    """How it stands with a message or timer that fails: attempts that ended badly, and attempts that were begun after
    a takeover and have no end that is known. ``called`` are the replies that are kept for it.
    """

    started: int = 0
    failed: int = 0
    again_at: int = 0
    error: ErrorRecord | None = None
    called: tuple[tuple[str, str], ...] = ()


class Origin(Struct, frozen=True, omit_defaults=True, kw_only=True):
    """Where a message comes from that a queue of another service keeps until it is done.

    ``queue`` names the queue, and ``id`` the message, whichever call it is. ``sequence`` is its number there, which
    grows within a group, and ``sent_at`` when it was sent there (milliseconds). ``aliases`` are other ids by which it
    may have been applied. ``requested``: a caller may repeat the request under ``id``, and gets the reply.
    """

    queue: str
    id: str
    sequence: str = ""
    sent_at: int = 0
    aliases: tuple[str, ...] = ()
    requested: bool = False


QUEUE_PREFIX: Final = "queue:"


def queue_places(origin: Origin) -> str:
    """How the places of messages of its queue begin."""
    return f"{QUEUE_PREFIX}{origin.queue}:"


def queue_place(origin: Origin) -> str:
    """What stands for a message of a queue of another service among the places of messages that fail."""
    return queue_places(origin) + origin.id


class QueueMark(Struct, frozen=True):
    """The last message of a queue that was applied or parked: its number there, and when it was sent."""

    sequence: str
    sent_at: int


class Reply(Struct, frozen=True, omit_defaults=True):
    """What a request was answered; ``fingerprint`` is that of its method and arguments.

    ``parked``: it has no answer, for its message was parked. It is applied when that is put back, and not before.
    """

    fingerprint: str
    value: Raw = NO_VALUE
    error: ErrorRecord | None = None
    parked: bool = False


class KeptReply(Struct, frozen=True, array_like=True):
    """A reply in the head of its actor, and until when it is kept (milliseconds)."""

    until: int
    reply: Reply


class ActorRecord(Struct, frozen=True, omit_defaults=True, kw_only=True, rename={"failures": "trouble"}):
    """The body of an actor's head. An empty body stands for an actor that has not begun.

    ``schema`` is the version of the class's fields under which ``state`` was written. ``settings`` counts how often
    timers were set. ``halted_by`` names the message that an actor has stopped at. ``stamp`` is the last one given to a
    message of its own. ``parked_up_to`` is the last place in the inbox that a message was parked from: one that is
    delivered again comes to its old place, so none behind it needs to be looked for among the parked ones. ``left_by``
    names the commit with which its owner released it: one that was not answered knows itself by that. ``recent`` are
    messages whose reply no caller awaits, by their ids, and until when (milliseconds) each may come again; none of
    those that have no room here has a greater id than ``paged_up_to`` (``turn.applied``). ``replies`` are
    those that are kept in the head (``turn.kept_replies``), by the ids of their calls.

    ``departing``: there may be departures among its items. ``marks`` are the stamps of the last numbered messages that
    it has applied, by sender; those that have no room here are in items of their own, none beyond ``marked_up_to``.
    ``queues`` and ``handled`` are about messages of queues of other services (``turn.ordered``): the last one of each
    queue, and the ids of the latest ones, the oldest first. ``page`` is the last page of older ids.
    """

    schema: int
    state: Raw
    timers: dict[str, TimerRecord] = {}
    settings: int = 0
    failures: dict[str, FailureRecord] = {}
    halted_by: str | None = None
    stamp: int = 0
    parked_up_to: str = ""
    left_by: str = ""
    recent: dict[str, int] = {}
    paged_up_to: str = ""
    replies: dict[str, KeptReply] = {}
    departing: bool = False
    marks: dict[str, int] = {}
    marked_up_to: int = 0
    queues: dict[str, QueueMark] = {}
    handled: tuple[str, ...] = ()
    page: str = ""


def next_timer(record: ActorRecord) -> int | None:
    """When the first of an actor's timers is to be run, or tried again, in milliseconds."""
    if not record.timers:
        return None
    return min(max(each.due_at, again_at(timer_place(name), record)) for name, each in record.timers.items())


def again_at(place: str, record: ActorRecord) -> int:
    """When a message or a timer that has failed is to be tried again, in milliseconds."""
    failure = record.failures.get(place)
    return 0 if failure is None else failure.again_at


encode_record: Final = msgspec.json.Encoder().encode
decode_record: Final = stored(ActorRecord, "the record of an actor")


class Call(Struct, frozen=True, omit_defaults=True, kw_only=True):
    """A message: call ``method``. ``id`` is the request's; ``known`` says that it may have come before, ``named`` that
    its sender may send it again much later.

    ``chain`` are the partitions of the actors that wait for its reply, outermost first. With ``replies`` an error is
    the reply; without, it is an attempt that failed. ``not_before`` (milliseconds) delays it. ``naming`` says how
    what it calls is named (``kernel.identity``). ``kept``: the reply has no end until the caller releases it.
    ``trace`` is the context of the sender. ``numbered``: it is delivered from the outbox of an actor, perhaps more than
    once, and the receiver's marks tell a repeat. ``origin`` is the queue of another service that the message is from.
    """

    id: str
    method: str
    args: Raw
    known: bool = False
    named: bool = False
    replies: bool = False
    chain: tuple[str, ...] = ()
    not_before: int = 0
    sent_at: int = 0
    naming: int = 0
    kept: bool = False
    trace: str = ""
    numbered: bool = False
    origin: Origin | None = None


def fingerprint_of(call: Call) -> str:
    """What tells two requests under one id apart (G11)."""
    return ids.fingerprint(f"{call.method}\0".encode() + bytes(call.args))


def timer_call(name: str, timer: TimerRecord, tick: int) -> Call:
    """The message that a timer's firing is; it was sent when it was due."""
    id = f"timer/{name}/{timer.set_count}/{tick}"
    return Call(id=id, method=timer.method, args=timer.args, sent_at=tick, naming=timer.naming)


class Departure(Struct, frozen=True):
    """What an actor has sent with a commit, and is still to be delivered: the item ``sort`` of the partition ``to``."""

    to: str
    sort: str
    body: Raw


class Parked(Struct, frozen=True, rename={"failure": "trouble"}):
    """A message parked because its attempts failed, and the last error."""

    call: Call
    failure: FailureRecord
    parked_at: int
    sort: str


encode: Final = msgspec.json.Encoder().encode
decode_call: Final = stored(Call, "a call of an actor")
decode_reply: Final = stored(Reply, "the answer of an actor")
decode_departure: Final = stored(Departure, "a departure of an actor")
decode_parked: Final = stored(Parked, "a parked call of an actor")
