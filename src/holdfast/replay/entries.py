"""What a journal holds: one small class per kind of fact, stored as tagged JSON.

Times are milliseconds since the epoch. ``op`` is an operation's identity: task path, name and occurrence.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Sequence
from typing import Final

import msgspec
from msgspec import Raw, Struct

from holdfast.codec.stored import stored
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

    ``deaths`` of processes have interrupted other attempts before.

    A second one of the same attempt, with ``AT_ONCE``, says that the wait for it was cut short.
    """

    op: str
    at: int
    attempt: int
    error: ErrorRecord
    again_at: int
    fingerprint: str = ""
    deaths: int = 0
    began: int = 0


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
    """A message was taken from the inbox. ``id`` is the sender's, for dropping repeats, ``trace`` its context."""

    id: str
    name: str
    at: int
    value: Raw = Raw(b"null")
    trace: str = ""


class Cancelled(Struct, frozen=True, gc=False, tag="cancelled", omit_defaults=True):
    """The execution was asked to stop, or its time ran out (``timed_out``). ``id`` is the request's, as above."""

    at: int
    reason: str = ""
    timed_out: bool = False
    id: str = ""


class Marked(Struct, frozen=True, gc=False, tag="marked"):
    """The body passed ``patched(id)`` for the first time, on code that knows this patch."""

    id: str
    at: int


class Pending(Struct, frozen=True, gc=False, tag="pending", omit_defaults=True):
    """What the body newly waits for: operations with the digests of their arguments, and timers and messages.

    It rides with the next segment, or in the head if the execution is suspended before that. Other code learns from it
    how far the body had come (G13). ``others`` are those of the operations that are not named after a step of the app:
    children, say, and steps that the body names itself.
    """

    operations: dict[str, str] = {}
    waits: tuple[str, ...] = ()
    others: tuple[str, ...] = ()


class Resumed(Struct, frozen=True, gc=False, tag="resumed", omit_defaults=True):
    """These timers were asked for long after what was recorded before: they count from ``at``.

    With ``at`` 0 or less it is not recorded, but follows from a retry: the body goes on from here, at another time than
    that of the entry before, and it is the retry number ``1 - at``.
    """

    at: int
    waits: tuple[str, ...] = ()

    @property
    def retries(self) -> int:
        """How often the execution had been retried by then, if this follows from a retry; 0 if it does not."""
        return max(0, 1 - self.at)


Note = Pending | Resumed
"""What rides with whatever is written next."""


def joined(pending: Sequence[Pending]) -> Pending:
    """One note that says what several have said, one after the other."""
    return Pending(
        {op: digest for each in pending for op, digest in each.operations.items()},
        tuple(wait for each in pending for wait in each.waits),
        tuple(op for each in pending for op in each.others),
    )


class Forked(Struct, frozen=True, gc=False, tag="forked"):
    """What comes behind the next entry is not shared with the execution this one was forked from: chances grow from
    another seed.
    """

    seed: str
    at: int


class Truncated(Struct, frozen=True, gc=False, tag="truncated", omit_defaults=True):
    """Only the first ``keep`` entries before this one still count: the execution was retried from there.

    The attempts of the operation ``afresh`` do not count either: it is tried again by its whole policy.
    """

    keep: int
    at: int
    afresh: str = ""


class Before(Struct, frozen=True, gc=False, omit_defaults=True):
    """How an execution had ended before it was retried: when it had been started or retried (0: started), when it
    ended, with which status and which type of error.
    """

    since: int
    at: int
    status: str
    error: str = ""


class Reopened(Struct, frozen=True, gc=False, tag="reopened", omit_defaults=True):
    """The execution had ended badly and was retried. The first ``keep`` standing entries before this one stay.

    Of the later ones, messages and notes stay. What was finished is kept back until the body asks for it again (G2).
    Nothing stays of the operations ``failed``, which are tried again by their whole policy; those of them that are
    ``anew`` go by another key from now on, because what they did under the old one was undone. ``ended`` is the end
    that no longer is one, ``request`` the id of the request to retry it. ``failed`` also names messages that it failed
    by: they are dropped.
    """

    keep: int
    at: int
    failed: tuple[str, ...] = ()
    anew: tuple[str, ...] = ()
    ended: Before | None = None
    request: str = ""


class Aside(Struct, frozen=True, gc=False, tag="aside"):
    """What an operation came to before a retry, for the body that asks for it again with the same arguments."""

    outcome: Done | Failed


class Renewed(Struct, frozen=True, gc=False, tag="renewed"):
    """The operation goes by another key from here on: it is not the one that went by its name before."""

    op: str
    at: int


class TakenOver(Struct, frozen=True, gc=False, tag="taken-over"):
    """The process that owned the entity died, and another one goes on with it: it claims the place of this segment
    first (G3). Such entries say only how often that came in a row; no replay sees them.
    """

    at: int


class Parked(Struct, frozen=True, gc=False, tag="parked"):
    """Too many processes have died in a row. The entity waits to be resumed, and then deaths count from zero."""

    at: int


Entry = (
    Done
    | Failed
    | Tried
    | Intended
    | Progressed
    | Received
    | Cancelled
    | Marked
    | Pending
    | Forked
    | Truncated
    | Reopened
    | Aside
    | Resumed
    | Renewed
    | TakenOver
    | Parked
)
Delivery = Done | Failed | Received | Cancelled | Forked
"""The entries that a body waits for; the others are notes that the kernel keeps."""

DELIVERIES: Final = (Done, Failed, Received, Cancelled, Forked)

Replayed = Delivery | Resumed
"""The entries that replay goes through, in the order of the journal."""

encode_entries: Final = msgspec.json.Encoder().encode
decode_entries: Final = stored(list[Entry], "a part of a journal")
EMPTY: Final = encode_entries(())
"""The body of a segment that only keeps its place taken."""

TIMER: Final = "timer"
"""The kind of an operation that is only a wait: to pass over one that was recorded loses nothing."""

STEP: Final = "step"
"""The kind of an operation that runs code of users: it ends by itself, and soon."""

SLEEPS: Final = ("sleep", "poll")
"""The names of waits that are over for good when they are over; others limit something, which begins again."""


_CHANGES: Final = frozenset({Truncated, Reopened, TakenOver, Parked, Aside})
"""Entries that do not stand themselves, or that others may make void."""


def standing(entries: list[Entry]) -> list[Entry]:
    """The entries that still count, in order: those that a later retry dropped are left out.

    What stands goes through here unchanged, so that more may be put behind it.
    """
    if _CHANGES.isdisjoint(map(type, entries)):
        return entries
    kept: list[Entry] = []
    retries = 0
    for entry in entries:
        match entry:
            case Truncated(keep=keep, afresh=afresh):
                kept = _without(kept[:keep], {afresh})
            case Reopened():
                retries += 1
                kept = [*_reopened(_used(kept), entry), Resumed(1 - retries)]
            case TakenOver() | Parked():
                pass
            case _:
                if isinstance(entry, Resumed):
                    retries = max(retries, entry.retries)
                kept.append(entry)
    return _used(kept)


def _reopened(kept: list[Entry], reopened: Reopened) -> list[Entry]:
    before = _without(kept[: reopened.keep], set(reopened.failed))
    later = kept[reopened.keep :]
    over = {*reopened.failed, *(each.op for each in later if isinstance(each, (Done, Failed)))}
    after = [_left_of(each, reopened.failed, over) for each in later]
    renewed = [Renewed(op, reopened.at) for op in reopened.anew]
    return [*before, *(each for each in after if each is not None), *renewed]


def _left_of(entry: Entry, failed: tuple[str, ...], over: Container[str]) -> Entry | None:
    """What a retry leaves of an entry behind the failure. Of an operation that is ``over`` the intent is of no use."""
    match entry:
        case Intended(op=op) if op in over:
            return None
        case Done(op=op) | Failed(op=op) | Tried(op=op) | Progressed(op=op) if op in failed:
            return None
        case Received(id=id) if id in failed:
            return None
        case Done(kind=kind, op=op) if kind == TIMER and not is_sleep(op):
            return None  # a time-out begins again
        case Done() | Failed():
            return Aside(entry)
        case Cancelled() | Tried() | Progressed() | Pending() | Resumed():
            return None
        case _:
            return entry


def is_sleep(op: str) -> bool:
    """Whether an operation is a wait that is over for good when it is over."""
    return op.rpartition("/")[2].partition("#")[0] in SLEEPS


def _used(entries: list[Entry]) -> list[Entry]:
    """Without what was kept back and has been asked for since."""
    aside = {entry.outcome.op for entry in entries if isinstance(entry, Aside)}
    if not aside:
        return entries
    asked: set[str] = set()
    kept: list[Entry] = []
    for entry in reversed(entries):
        if isinstance(entry, (Done, Failed, Renewed)):
            asked.add(entry.op)
        if not (isinstance(entry, Aside) and entry.outcome.op in asked):
            kept.append(entry)
    return kept[::-1]


_NO_PROGRESS: Final = (Intended, Progressed, Marked, Pending, Resumed, Aside, Renewed)
"""Entries that may come again and again although nothing is ever finished."""


def deaths_in_a_row(entries: Sequence[Entry], before: int = 0) -> int:
    """How many processes have died since something was last finished, if it was ``before`` in front of ``entries``.

    >>> deaths_in_a_row([TakenOver(1), TakenOver(2)], before=1), deaths_in_a_row([TakenOver(1), Received("i", "go", 2)])
    (3, 0)
    """
    deaths = before
    if not deaths and TakenOver not in map(type, entries):
        return 0
    for entry in entries:
        if isinstance(entry, TakenOver):
            deaths += 1
        elif deaths and not isinstance(entry, _NO_PROGRESS):
            deaths = 0
    return deaths


def _without(entries: Iterable[Entry], ops: set[str]) -> list[Entry]:
    """The entries as if these operations had not been asked for: the next time it may be with other arguments."""
    kept: list[Entry] = []
    for entry in entries:
        match entry:
            case Tried(op=op) | Intended(op=op) if op in ops:
                pass
            case Pending(operations=operations) if not operations.keys().isdisjoint(ops):
                left = {op: digest for op, digest in operations.items() if op not in ops}
                kept.append(Pending(left, entry.waits, tuple(op for op in entry.others if op in left)))
            case _:
                kept.append(entry)
    return kept


def renamed(op: str, times: int) -> str:
    """What an operation is called where its key is made, once it has begun again ``times`` times.

    >>> renamed("pay#0", 0), renamed("pay#0", 2)
    ('pay#0', 'pay#0!2')
    """
    return f"{op}!{times}" if times else op
