"""The ids of traces and spans, which follow from identities: whatever process makes them, today or in a year, they are
the same.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Final

import msgspec

from holdfast.tracing import checked

if TYPE_CHECKING:
    from holdfast.workflows.record import ExecutionRecord

SAMPLED: Final = "01"


def trace_id(partition: str, record: ExecutionRecord) -> str:
    """The trace of an execution, 32 hexadecimal digits: the caller's, if one came with the start, else its own."""
    if carried := checked(record.trace):
        return carried.split("-")[1]
    return _digest(16, "trace", partition, _start_of(record))


def execution_span(partition: str, record: ExecutionRecord) -> str:
    """The span of an execution, 16 hexadecimal digits: what it does and whom it starts nests below it."""
    return _digest(8, "execution", partition, _start_of(record))


def again_span(partition: str, record: ExecutionRecord, timed_from: int) -> str:
    """The span of what an execution did after it was retried, at ``timed_from`` (milliseconds)."""
    return _digest(8, "again", partition, _start_of(record), str(timed_from))


def attempt_span(partition: str, record: ExecutionRecord, op: str, attempt: int, began: int) -> str:
    """The span of one attempt. ``began`` tells it from one that a dead process has begun under the same number."""
    return _digest(8, "attempt", partition, *_run_of(record), op, str(attempt), str(began))


def entry_span(partition: str, record: ExecutionRecord, kind: str, name: str, at: int) -> str:
    """The span of anything else that the journal tells."""
    return _digest(8, "entry", partition, *_run_of(record), kind, name, str(at))


def call_trace(partition: str, id: str) -> str:
    """The trace of a call, message or event of an actor that came without a caller's."""
    return _digest(16, "trace of a call", partition, id)


def call_span(partition: str, place: str, id: str, attempt: int, began: int) -> str:
    """The span of one attempt to handle it. ``place`` is that of the message, if it is one."""
    return _digest(8, "call", partition, place, id, str(attempt), str(began))


def traceparent_of(partition: str, record: ExecutionRecord, flags: str = SAMPLED) -> str:
    """The context of what an execution sends and starts: below its own span, and sampled if its caller was."""
    carried = checked(record.trace)
    told = carried.split("-")[3] if carried else flags
    return f"00-{trace_id(partition, record)}-{execution_span(partition, record)}-{told}"


def _run_of(record: ExecutionRecord) -> tuple[str, ...]:
    """Its start, its run, and the last retry of it, which counts attempts from 1 again."""
    return (_start_of(record), str(record.run), str(record.timed_from))


def _start_of(record: ExecutionRecord) -> str:
    return record.nonce or _digest(16, "secret", record.secret)  # the old format has no nonce


def _digest(size_bytes: int, *parts: str) -> str:
    """Hexadecimal digits that follow from ``parts``, in a form of their own: the ids of keys and children differ."""
    return hashlib.blake2b(msgspec.json.encode(parts), digest_size=size_bytes, person=b"holdfast-trace").hexdigest()
