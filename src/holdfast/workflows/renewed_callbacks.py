"""Callbacks of an execution that is retried: those that its body waits for are closed, and it opens others.

Only a workflow that says so (``renews_callbacks``) is told. To any other one a callback stays what it was.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import msgspec
from msgspec import Raw

from holdfast import ids
from holdfast.failure import ErrorRecord
from holdfast.replay.entries import Entry, Received, standing
from holdfast.workflows.closing import close_callback
from holdfast.workflows.record import MAILBOX_PREFIX, CallbackAnswer, encode_message
from holdfast.workflows.replay import looked_into

if TYPE_CHECKING:
    from holdfast.items import Put
    from holdfast.registrations import Registrations
    from holdfast.replay.entries import Reopened
    from holdfast.workflows.history import Recorded

RENEWED: Final = "holdfast.CallbackRenewed"
"""The type of the error by which a body learns that a callback is not answered any more."""

_decode: Final = msgspec.json.Decoder(CallbackAnswer).decode


def open_callbacks(recorded: Recorded, reopened: Reopened, registry: Registrations) -> Sequence[str]:
    """The callbacks that the body waits for once the execution is ``reopened``."""
    workflow = registry.workflows.get(recorded.record.workflow)
    if workflow is None or not workflow.renews_callbacks:
        return ()
    entries = standing([*recorded.entries, reopened])
    with looked_into(recorded, entries, workflow, registry.errors.rebuild) as activation:
        activation.begin()
        waited_for = dict.fromkeys(name for name, _ in activation.mailboxes.takers())
    return [name.removeprefix(MAILBOX_PREFIX) for name in waited_for if name.startswith(MAILBOX_PREFIX)]


def told_so(ops: Sequence[str], run: int, now: int) -> list[Entry]:
    """The messages by which a body learns that these callbacks are closed."""
    return [
        Received(ids.new_id(), MAILBOX_PREFIX + op, now, Raw(encode_message(CallbackAnswer(run, op, error=_CLOSED))))
        for op in ops
    ]


def closed(ops: Sequence[str], partition: str, run: int) -> list[Put]:
    """The writes after which no answer of these callbacks is taken."""
    return [close_callback(partition, run, op) for op in ops]


def failures_in(entries: Sequence[Entry]) -> list[tuple[ErrorRecord, str]]:
    """The errors that callbacks were answered with, in order, each with the id of its message."""
    answers = [
        (_decode(bytes(entry.value)).error, entry.id)
        for entry in entries
        if isinstance(entry, Received) and entry.name.startswith(MAILBOX_PREFIX)
    ]
    return [(error, id) for error, id in answers if error is not None]


_CLOSED: Final = ErrorRecord(type=RENEWED, message="the execution was retried, and opens another callback")
