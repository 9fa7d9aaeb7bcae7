"""An execution at a glance, as it is seen from outside."""

from __future__ import annotations

import logging
from datetime import datetime
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from holdfast.clock import moment
from holdfast.errors import InvalidInput, StoreUnusable
from holdfast.failure import in_one_line
from holdfast.keys import check_text
from holdfast.replay.earlier import name_of
from holdfast.workflows.record import (
    BLOCKED,
    ExecutionRecord,
    ExecutionRef,
    decode_record,
    describe_partition,
    id_of,
    pinned_to,
    ref_of,
    root_of,
    workflow_of,
)
from holdfast.workflows.runs import count_of
from holdfast.workflows.waits import KINDS, SIGNAL, Wait, Waits

if TYPE_CHECKING:
    from collections.abc import Sequence

    from holdfast.items import Item

_logger = logging.getLogger("holdfast")

NO_REASON: Final = "other code is needed than the workers have"
"""Why an execution is blocked whose record does not say."""


class Awaited(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One thing that an execution waits for. ``kind`` is one of ``KINDS``, ``name`` the signal's, the step's, the
    workflow's or the actor's, ``operation`` its identity. What does not apply is ``None``.

    ``id`` is that of the other execution, or the actor's key. ``until`` is when a timer is due, when a step is tried
    again, or when the body gives up waiting. ``place`` is the line of code at which it stands: ``shop.py:42 in pay``.
    Of a step: ``attempt`` of ``most_attempts`` runs since ``began``, or comes next, and ``error`` is how the one before
    failed; ``last_heartbeat`` is when it reported. ``arguments`` are only told where payloads are. ``limit`` names the
    limits whose permits one waits for that has left memory.
    """

    kind: str
    name: str
    operation: str | None = None
    id: str | None = None
    until: datetime | None = None
    place: str | None = None
    attempt: int | None = None
    most_attempts: int | None = None
    began: datetime | None = None
    last_heartbeat: datetime | None = None
    error: str | None = None
    arguments: str | None = None
    limit: str | None = None


class WaitsFor(Struct, frozen=True):
    """What executions are looked for that wait for it: anything of a kind, or what has this name too."""

    kind: str
    name: str = ""

    @classmethod
    def parse(cls, text: str) -> WaitsFor:
        """Read ``KIND`` or ``KIND:NAME``. Raises ``InvalidInput``.

        >>> WaitsFor.parse("signal:approval")
        WaitsFor(kind='signal', name='approval')
        """
        kind, _, name = check_text("what is waited for", text).partition(":")
        if kind not in KINDS:
            raise InvalidInput(f"nothing that is waited for is called {kind[:60]!r}; there are: {', '.join(KINDS)}")
        return cls(kind, name)

    def __str__(self) -> str:
        return f"{self.kind}:{self.name}" if self.name else self.kind

    def is_one_of(self, waits: Sequence[Awaited]) -> bool:
        """Whether it is among these."""
        return any(each.kind == self.kind and self.name in ("", each.name) for each in waits)


class Status(Struct, frozen=True, kw_only=True):
    """An execution at a glance. Payloads are not in it; ``error`` is its cause in one line.

    ``error`` begins with "damaged" if its record cannot be read; then only its key, status and due time are known.
    ``due_at`` is when a worker looks at it next; of a delayed start it is when the body begins, and a parked one has
    none. ``version`` is that of its code, ``published`` the version of a function of Lambda that has it: of pinned ones
    only. ``parent`` is the execution that called this one, ``root`` the one at the top of the family: itself, if it has
    no parent. ``blocked`` says why it is ``BLOCKED``. ``error_type`` is the error's ``module.QualifiedName``.

    ``waits`` is what it waits for, as its owner has told it; empty if it has ended, if a worker has taken it up just
    now, and of what this version of Holdfast has not written.
    """

    workflow: str
    id: str
    status: str
    version: str
    run: int
    created_at: datetime
    ended_at: datetime | None
    due_at: datetime | None
    tags: dict[str, str]
    error: str | None
    published: str | None = None
    parent: ExecutionRef | None = None
    root: ExecutionRef | None = None
    blocked: str | None = None
    error_type: str | None = None
    waits: tuple[Awaited, ...] = ()


def status_of(head: Item) -> Status:
    """A head as users see it. One whose body cannot be read is shown with its key, and with what is wrong: it must not
    hide the others.
    """
    try:
        record: ExecutionRecord = decode_record(head.body)
    except StoreUnusable as unreadable:
        return _damaged(head, unreadable)
    error = record.error
    return Status(
        workflow=record.workflow,
        id=record.id,
        status=head.status,
        version=pinned_to(record),
        run=count_of(record.run),
        created_at=moment(record.created_at),
        ended_at=None if record.ended_at is None else moment(record.ended_at),
        due_at=None if head.due_at is None or record.parked else moment(head.due_at),
        tags=record.tags,
        error=None if error is None else in_one_line(error),
        published=record.published or None,
        parent=None if record.parent is None else ref_of(record.parent.partition),
        root=ref_of(root_of(record, head.partition)),
        blocked=_why(head.status, record),
        error_type=None if error is None else error.type,
        waits=awaited_by(head, record),
    )


def told_waits(head: Item, record: ExecutionRecord) -> Waits | None:
    """What the head tells of where the body stands, unless a worker has taken it up since."""
    waits = record.waits
    return None if waits is None or (head.owner is not None and waits.epoch != head.epoch) else waits


def awaited_by(head: Item, record: ExecutionRecord, *, arguments: bool = False) -> tuple[Awaited, ...]:
    """What an execution waits for, for people; with the ``arguments`` of steps if they may be told."""
    waits = told_waits(head, record)
    return () if waits is None else tuple(_awaited(each, arguments=arguments) for each in waits.waits)


def _awaited(wait: Wait, *, arguments: bool) -> Awaited:
    is_signal = wait.kind == SIGNAL
    return Awaited(
        kind=wait.kind,
        name=wait.op if is_signal else name_of(wait.op).removeprefix("!"),
        operation=None if is_signal else wait.op,
        id=wait.id or None,
        until=_moment(wait.until),
        place=wait.place or None,
        attempt=wait.attempt or None,
        most_attempts=wait.most or None,
        began=_moment(wait.began),
        last_heartbeat=_moment(wait.beat),
        error=wait.error or None,
        arguments=(wait.arguments or None) if arguments else None,
        limit=wait.limit or None,
    )


def _moment(ms: int) -> datetime | None:
    return moment(ms) if ms else None


def _damaged(head: Item, unreadable: Exception) -> Status:
    return Status(
        workflow=workflow_of(head.partition),
        id=id_of(head.partition),
        status=head.status,
        version="",
        run=0,
        created_at=moment(0),
        ended_at=None,
        due_at=None if head.due_at is None else moment(head.due_at),
        tags={},
        error=f"damaged: {unreadable}",
    )


class BlockedWarning(Struct):
    """Warns in the log, once, that an execution which is waited for is blocked."""

    is_said: bool = False

    def __call__(self, head: Item) -> None:
        why = None if self.is_said else blocked_for(head)
        if why is not None:
            self.is_said = True
            _logger.warning("%s is BLOCKED, and is awaited: %s", describe_partition(head.partition), why)


def blocked_for(head: Item) -> str | None:
    """Why an execution is blocked; ``None`` if it is not."""
    return _why(head.status, decode_record(head.body)) if head.status == BLOCKED else None


def _why(status: str, record: ExecutionRecord) -> str | None:
    return (record.blocked or NO_REASON) if status == BLOCKED else None
