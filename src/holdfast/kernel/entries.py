"""What a journal holds: one small class per kind of fact, stored as tagged JSON.

Times are milliseconds since the epoch. ``op`` is an operation's identity: task path, name and occurrence.
"""

from __future__ import annotations

from typing import Final

import msgspec
from msgspec import Raw, Struct

from holdfast.failure import ErrorRecord


class Done(Struct, frozen=True, gc=False, tag="done", omit_defaults=True):
    """An operation ended well. ``value`` is its encoded result; what has no result, a timer say, has none."""

    op: str
    at: int
    kind: str
    value: Raw = Raw(b"null")
    fingerprint: str = ""
    attempts: int = 1
    began: int = 0


class Failed(Struct, frozen=True, gc=False, tag="failed", omit_defaults=True):
    """An operation ended badly and will not be tried again."""

    op: str
    at: int
    kind: str
    error: ErrorRecord
    fingerprint: str = ""
    attempts: int = 1
    began: int = 0


AT_ONCE: Final = 0


class Tried(Struct, frozen=True, gc=False, tag="tried", omit_defaults=True):
    """An attempt failed; the next one starts no earlier than ``again_at``.

    A second one of the same attempt, with ``AT_ONCE``, says that somebody did not want to wait for that.
    """

    op: str
    at: int
    attempt: int
    error: ErrorRecord
    again_at: int
    fingerprint: str = ""


class Intended(Struct, frozen=True, gc=False, tag="intended", omit_defaults=True):
    """An at-most-once operation is about to start (written before its effect, G10)."""

    op: str
    at: int
    fingerprint: str = ""


class Progressed(Struct, frozen=True, gc=False, tag="progressed"):
    """A running step reported how far it is; its next attempt is handed the details."""

    op: str
    at: int
    details: Raw


class Received(Struct, frozen=True, gc=False, tag="received", omit_defaults=True):
    """A message was taken from the inbox. ``id`` is the sender's, for dropping repeats."""

    id: str
    name: str
    at: int
    value: Raw = Raw(b"null")


class Cancelled(Struct, frozen=True, gc=False, tag="cancelled", omit_defaults=True):
    """Somebody asked the execution to stop, or its time ran out (``timed_out``)."""

    at: int
    reason: str = ""
    timed_out: bool = False


class Marked(Struct, frozen=True, gc=False, tag="marked"):
    """The body passed ``patched(id)`` for the first time, on code that knows this patch."""

    id: str
    at: int


class Pending(Struct, frozen=True, gc=False, tag="pending", omit_defaults=True):
    """What the body newly waits for: operations with the digests of their arguments, and timers and messages.

    It rides with the next segment, or in the head if the execution is suspended before that. Other code learns from it
    how far the body had come (G13).
    """

    operations: dict[str, str] = {}
    waits: tuple[str, ...] = ()


class Resumed(Struct, frozen=True, gc=False, tag="resumed", omit_defaults=True):
    """These timers were asked for long after what was recorded before: they count from ``at``.

    With ``at`` 0 it says only that the body goes on from here at another time than that of the entry before.
    """

    at: int
    waits: tuple[str, ...] = ()


class Truncated(Struct, frozen=True, gc=False, tag="truncated", omit_defaults=True):
    """Only the first ``keep`` entries before this one still count: the execution was retried from there.

    The attempts of the operation ``afresh`` do not count either: it is tried again by its whole policy.
    """

    keep: int
    at: int
    afresh: str = ""


Entry = Done | Failed | Tried | Intended | Progressed | Received | Cancelled | Marked | Pending | Resumed | Truncated
Delivery = Done | Failed | Received | Cancelled
"""The entries that a body waits for; the others are notes that the kernel keeps."""

DELIVERIES: Final = (Done, Failed, Received, Cancelled)

Replayed = Delivery | Resumed
"""The entries that replay goes through, in the order of the journal."""

encode_entries: Final = msgspec.json.Encoder().encode
decode_entries: Final = msgspec.json.Decoder(list[Entry]).decode


def standing(entries: list[Entry]) -> list[Entry]:
    """The entries that still count, in order: those that a later ``Truncated`` dropped are left out."""
    kept: list[Entry] = []
    for entry in entries:
        if isinstance(entry, Truncated):
            kept = [each for each in kept[: entry.keep] if not _is_attempt(each, entry.afresh)]
        else:
            kept.append(entry)
    return kept


def _is_attempt(entry: Entry, op: str) -> bool:
    return isinstance(entry, (Tried, Intended)) and entry.op == op
