"""An execution at a glance, as it is seen from outside."""

from __future__ import annotations

import logging
from datetime import datetime
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from holdfast.clock import moment
from holdfast.errors import StoreUnusable
from holdfast.failure import in_one_line
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

if TYPE_CHECKING:
    from holdfast.items import Item

_logger = logging.getLogger("holdfast")

NO_REASON: Final = "other code is needed than the workers have"
"""Why an execution is blocked whose record does not say."""


class Status(Struct, frozen=True, kw_only=True):
    """An execution at a glance. Payloads are not in it; ``error`` is its cause in one line.

    ``error`` begins with "damaged" if its record cannot be read; then only its key, status and due time are known.
    ``due_at`` is when a worker looks at it next; of a delayed start it is when the body begins, and a parked one has
    none. ``version`` is that of its code, ``published`` the version of a function of Lambda that has it: of pinned ones
    only. ``parent`` is the execution that called this one, ``root`` the one at the top of the family: itself, if it has
    no parent. ``blocked`` says why it is ``BLOCKED``. ``error_type`` is the error's ``module.QualifiedName``.
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
        run=record.run,
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
    )


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


class BlockedWarning:
    """Warns in the log, once, that an execution which is waited for is blocked."""

    __slots__ = ("_is_said",)

    def __init__(self) -> None:
        self._is_said = False

    def __call__(self, head: Item) -> None:
        why = None if self._is_said else blocked_for(head)
        if why is not None:
            self._is_said = True
            _logger.warning("%s is BLOCKED, and is awaited: %s", describe_partition(head.partition), why)


def blocked_for(head: Item) -> str | None:
    """Why an execution is blocked; ``None`` if it is not."""
    return _why(head.status, decode_record(head.body)) if head.status == BLOCKED else None


def _why(status: str, record: ExecutionRecord) -> str | None:
    return (record.blocked or NO_REASON) if status == BLOCKED else None
