"""What the store holds about an execution: the head's statuses and body, and the messages in its inbox."""

from __future__ import annotations

from typing import Any, Final, Literal, Protocol, TypeGuard, get_args

import msgspec
from msgspec import Raw, Struct, field
from msgspec.structs import replace

from holdfast import ids, keys
from holdfast.codec.stored import Reader, stored
from holdfast.errors import InvalidInput
from holdfast.failure import ErrorRecord
from holdfast.flow.record import QUEUED, Queueing
from holdfast.items import ABSENT, HEAD, Item, Put, StatusIn, Update
from holdfast.replay.entries import Entry, Received
from holdfast.workflows.runs import count_of
from holdfast.workflows.waits import Waits

PARTITION_PREFIX: Final = keys.EXECUTIONS
READY: Final = "READY"
RUNNING: Final = "RUNNING"
SUSPENDED: Final = "SUSPENDED"
BLOCKED: Final = "BLOCKED"
PAUSED: Final = "PAUSED"
COMPLETED: Final = "COMPLETED"
FAILED: Final = "FAILED"
CANCELLED: Final = "CANCELLED"
TIMED_OUT: Final = "TIMED_OUT"
TERMINATED: Final = "TERMINATED"
COMPENSATION_FAILED: Final = "COMPENSATION_FAILED"
DELETED: Final = "DELETED"  # counts as absent, whatever a clock says

CLAIMABLE: Final = (READY, RUNNING, SUSPENDED, BLOCKED)
OPEN: Final = (QUEUED, *CLAIMABLE, PAUSED)
ENDED: Final = (COMPLETED, FAILED, CANCELLED, TIMED_OUT, TERMINATED, COMPENSATION_FAILED)
CLOSED: Final = (*ENDED, DELETED)
STATUSES: Final = (*OPEN, *ENDED)

NO_VALUE: Final = Raw()
"""Stands where there is no encoded value at all; an encoded ``None`` is ``null``."""


DERIVED_ID_MARK: Final = "~"
"""How ids begin that Holdfast derives, those of children say. No user may give an id that begins so."""


def check_new_id(id: str) -> str:
    """An id that a user gives to a new execution."""
    if check_id(id).startswith(DERIVED_ID_MARK):
        raise InvalidInput(
            f"an id that begins with {DERIVED_ID_MARK!r} is one that Holdfast derives, for a child say: "
            f"give the new execution another id than {id[:60]!r}"
        )
    return id


def check_id(id: str) -> str:
    """Ids become keys in the store: not empty, bounded, printable."""
    return keys.check_id("an execution's id", id)


def check_tags(tags: dict[str, str]) -> dict[str, str]:
    """Tags are text to text."""
    given: Any = tags  # whatever its annotation says
    if not isinstance(given, dict):
        raise InvalidInput(f"tags are a dict of text to text, not {given!r}")
    for name, value in tags.items():
        keys.check_printable("the name of a tag", keys.check_text("the name of a tag", name))
        keys.check_printable(f"tag {name!r}", keys.check_text(f"tag {name!r}", value))
    return dict(tags)


def partition_of(workflow: str, id: str) -> str:
    """The partition of an execution: ids are unique per workflow."""
    return f"{PARTITION_PREFIX}{workflow}#{id}"


def is_there(head: Item | None, now: int) -> TypeGuard[Item]:
    """Whether an execution is there: one that was deleted or has expired is not, though it may wait to be purged."""
    return head is not None and head.status != DELETED and (head.expires_at is None or head.expires_at > now)


def workflow_of(partition: str) -> str:
    """The workflow's name, from a partition of ours."""
    return partition[len(PARTITION_PREFIX) :].partition("#")[0]


def id_of(partition: str) -> str:
    """The execution's id, from a partition of ours."""
    return partition[len(PARTITION_PREFIX) :].partition("#")[2]


class Named(Protocol):
    """Whatever names an execution: a handle, a status, a reference."""

    @property
    def workflow(self) -> str: ...

    @property
    def id(self) -> str: ...


class ExecutionRef(Struct, frozen=True):
    """An execution by its names."""

    workflow: str
    id: str


def parse_ref(what: str, text: str) -> ExecutionRef:
    """An execution as it is written on the command line and in queries: ``workflow/id``."""
    workflow, slash, id = text.partition("/")
    if not (workflow and slash and id):
        raise InvalidInput(f"{what} is an execution, written workflow/id, not {text!r}")
    return ExecutionRef(workflow, id)


def ref_of(partition: str) -> ExecutionRef:
    """The execution that is there."""
    return ExecutionRef(workflow_of(partition), id_of(partition))


def describe_partition(partition: str) -> str:
    """An execution as people name it, for messages."""
    return f"execution {id_of(partition)!r} of workflow {workflow_of(partition)!r}"


OnParentEnd = Literal["cancel", "leave"]
"""What becomes of a child that is still running when its parent ends: it is asked to stop, or goes on."""

CANCEL: Final = "cancel"
LEAVE: Final = "leave"


def check_on_parent_end(policy: OnParentEnd) -> OnParentEnd:
    """One of the policies."""
    if policy not in get_args(OnParentEnd):
        told = " or ".join(map(repr, get_args(OnParentEnd)))
        raise InvalidInput(f"on_parent_end is {told}, not {policy!r}")
    return policy


class Parent(Struct, frozen=True, omit_defaults=True):
    """The execution, its run, the operation that awaits this one, and the nonce of the execution's start; and what
    becomes of this one when the other one ends.
    """

    partition: str
    run: int
    op: str
    nonce: str = ""
    on_end: OnParentEnd = CANCEL


def are_same(one: Parent, other: Parent | None) -> bool:
    """Whether both are the same call of the same parent, whatever its code says now of the end."""
    return other is not None and replace(one, on_end=CANCEL) == replace(other, on_end=CANCEL)


class ExecutionRecord(Struct, frozen=True, gc=False, omit_defaults=True, kw_only=True):
    """The body of an execution's head. Times are milliseconds; ``run`` counts ``continue_as_new``.

    ``tail`` are the last entries of the journal, which ride in the head instead of a segment of their own. ``carried``
    are signals that the run before had received and not used, ``seen`` the ids of the last signals that earlier runs
    received: a repeat is still dropped. ``awaited_by`` are the partitions of those who asked earlier runs to be told of
    the end. ``seed`` is that of the execution this one was forked from, whose journal it shares.

    ``nonce`` was drawn at the start and is part of every identity that is derived from the execution. A record without
    one is of the old format, in which identities follow from the id alone.

    ``notes`` belong behind the first ``notes_at`` entries of the journal; if there are more, the next one has brought
    them along. What was recorded just before a rest is among them (``replay.settling``). ``blocked`` is why the code
    could not go on when it was last tried. ``parked``: too many processes have died of it, and it waits to be resumed.

    ``deadline_at`` counts from ``timed_from``, when it was last retried, or from its creation. The body begins at
    ``starts_at``, if the start was delayed. ``root`` is the partition of the execution at the top of the family, if
    there is a ``parent``.

    ``version`` is that of the code on which the run began, ``moved_to`` that of the code it was moved to since.
    ``published`` is the last published version of just this code that has had it; only pinned workflows keep it.
    ``queries`` are the answers of the body's queries when it ended. ``starter`` is the operation that has
    started it and left it to itself; an awaited one has a ``parent``.

    ``waits`` is what its last owner has told of where the body stands; nothing depends on it. ``trace`` is the
    ``traceparent`` of its start. ``needs`` is the partition of a constant item that it needs, and others too;
    it is stored as ``shared``. ``queued`` is how it waits in a queue, or has waited. ``shares`` are the queues in which
    it shares a slot of those that have called it.
    """

    created_at: int  # it and the tags come first, for an index (``backends.sqlite.schema``)
    tags: dict[str, str] = {}
    workflow: str
    id: str
    version: str
    input: Raw
    fingerprint: str
    secret: str
    nonce: str = ""
    run: int = 0
    run_at: int
    parent: Parent | None = None
    starter: Parent | None = None
    root: str = ""
    starts_at: int = 0
    deadline_at: int | None = None
    timed_from: int = 0
    ended_at: int | None = None
    result: Raw = NO_VALUE
    error: ErrorRecord | None = None
    tail: tuple[Entry, ...] = ()
    carried: tuple[Received, ...] = ()
    seen: tuple[str, ...] = ()
    awaited_by: tuple[str, ...] = ()
    seed: str = ""
    moved_to: str = ""
    published: str = ""
    notes: tuple[Entry, ...] = ()
    notes_at: int = 0
    blocked: str = ""
    parked: bool = False
    queries: dict[str, Raw] = {}
    waits: Waits | None = None
    trace: str = ""
    needs: str = field(default="", name="shared")
    queued: Queueing | None = None
    shares: tuple[str, ...] = ()


def recorded_entries(record: ExecutionRecord, journal: list[Entry]) -> list[Entry]:
    """All that is recorded of the run, given what its segments hold: the head may hold more behind that."""
    return [*journal, *record.notes] if record.notes_at == len(journal) else journal


def pinned_to(record: ExecutionRecord) -> str:
    """The version of the code that may go on with the run, if its workflow is pinned."""
    return record.moved_to or record.version


def operation_key(partition: str, record: ExecutionRecord, op: str) -> str:
    """What identifies an operation for ever: no other start of the same id, home, run or operation has the same key.

    40 hexadecimal digits; in the old format the partition, the run and the operation.
    """
    if not record.nonce:
        return f"{partition}/{record.run}/{op}"
    return ids.derive(partition, record.nonce, str(count_of(record.run)), op)


def child_id(partition: str, record: ExecutionRecord, op: str) -> str:
    """The id of an execution that another one starts by an operation: a repeated start finds the same one."""
    if not record.nonce:
        run = f".{record.run}" if record.run else ""
        return f"{record.id}{run}/{op}"
    return DERIVED_ID_MARK + ids.derive("child", operation_key(partition, record, op))


def root_of(record: ExecutionRecord, partition: str) -> str:
    """The partition of the execution at the top of the family. Of a child of the old format it is its parent's."""
    if record.root or record.parent is None:
        return record.root or partition
    return record.parent.partition


def seed_of(record: ExecutionRecord) -> str:
    """What the run's random numbers grow from: the same on every replay, another for every run."""
    return record.seed or f"{record.secret}/{record.run}"


encode_record: Final = msgspec.json.Encoder().encode
decode_record: Final = stored(ExecutionRecord, "the record of an execution")


class RecordedResult(Struct, frozen=True, gc=False):
    """What came of an execution, without the rest of its record: ``NO_VALUE`` if it ended badly."""

    created_at: int
    result: Raw = NO_VALUE


decode_result: Final = stored(RecordedResult, "the result of an execution")


# ── Messages ────────────────────────────────────────────────────────────────────────────────────────────────────────


class Signal(Struct, frozen=True, tag="signal", omit_defaults=True):
    """A named value for the body. ``id`` tells repeats apart, ``trace`` is its sender's context."""

    id: str
    name: str
    value: Raw
    trace: str = ""


PINNED: Final = "is pinned to version"
"""What the reason says of an execution that is blocked because the worker has another version of its pinned code. Only
such an execution can be moved.
"""

NO_LONGER_AWAITED: Final = "its parent no longer waits for it"
"""Why a parent cancels its child."""


class CancelRequest(Struct, frozen=True, tag="cancel", omit_defaults=True):
    """The execution is asked to stop. ``id`` tells repeats apart."""

    reason: str
    id: str = ""


class RetryNow(Struct, frozen=True, tag="retry-now"):
    """Steps that wait for their next attempt shall not wait any longer."""


class CallbackAnswer(Struct, frozen=True, tag="callback", omit_defaults=True):
    """What came back for a callback: a value, an error, or just a sign of life."""

    run: int
    op: str
    value: Raw = NO_VALUE
    error: ErrorRecord | None = None


class ChildEnded(Struct, frozen=True, tag="child", omit_defaults=True):
    """How an awaited child ended; of what was started and left to itself, its id (see ``was_started``).

    An end that ``stays`` was not written together with this, and does not expire. It may have been taken back by a
    retry before this came: a receiver that was retried as well looks.
    """

    run: int
    op: str
    value: Raw = NO_VALUE
    error: ErrorRecord | None = None
    nonce: str = ""
    stays: bool = False


class AwaitRequest(Struct, frozen=True, tag="await"):
    """The execution in the partition ``by`` wants to be told when this one ends."""

    by: str


class AwaitedEnded(Struct, frozen=True, tag="ended", omit_defaults=True):
    """How an execution ended that the receiver asked to be told of. If it does not say, the receiver may look. It may
    come late, as ``ChildEnded`` may.
    """

    partition: str
    value: Raw = NO_VALUE
    error: ErrorRecord | None = None
    stays: bool = False


Message = Signal | CancelRequest | RetryNow | CallbackAnswer | ChildEnded | AwaitRequest | AwaitedEnded

encode_message: Final = msgspec.json.Encoder().encode
decode_message: Final[Reader[Message]] = stored(Message, "a message to an execution")

MAILBOX_PREFIX: Final = "!callback/"
CALLBACK_PREFIX: Final = "i#callback#"


def callback_sort(run: int, op: str) -> str:
    """The inbox place of a callback's one answer. A second answer finds it taken."""
    return f"{CALLBACK_PREFIX}{run:06d}#{op}"


ANSWERED_PREFIX: Final = "c#"
"""Before the marks of callbacks that were answered or have timed out. They lie outside of the inbox, which is read
often, and are deleted with their run."""


def answered_sort(run: int, op: str) -> str:
    """The place of the mark that a callback takes no answer any more."""
    return f"{ANSWERED_PREFIX}{run:06d}#{op}"


AWAIT_PREFIX: Final = "i#await#"
AWAITED_MARK: Final = "!awaited/"
"""Before the partition of one who asked to be told of the end: the name of a mark in the journal."""


def await_sort(by: str, nonce: str) -> str:
    """The inbox place of the one request of ``by``, as started with ``nonce``. A repeat finds it taken."""
    return f"{AWAIT_PREFIX}{ids.fingerprint(f'{by}{nonce}'.encode())}"


def post(partition: str, sort: str, message: Message, now: int) -> tuple[Put, Update]:
    """The writes that put a message into an open execution's inbox and make its owner look, together or not at all."""
    put = Put(Item(partition=partition, sort=sort, body=encode_message(message)), ABSENT)
    return put, make_due(partition, now)


def make_due(partition: str, now: int) -> Update:
    """The write that makes an open execution due now; its new revision refuses the owner's settle until it looks."""
    return Update(partition=partition, sort=HEAD, when=StatusIn(OPEN), due_at=now, add_revision=1)
