"""What is recorded for a body, and whether the code that runs now fits it (G13).

It answers what is to be delivered next, and why the code may not go on. The caller raises: nothing here stops a body.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Container, Iterable, Mapping, Sequence
from typing import Final

from holdfast.replay.backlog import Backlog
from holdfast.replay.earlier import EarlierCode, name_of
from holdfast.replay.entries import (
    DELIVERIES,
    STEP,
    TIMER,
    Delivery,
    Done,
    Entry,
    Failed,
    Intended,
    Marked,
    Pending,
    Replayed,
    Resumed,
    Tried,
)
from holdfast.replay.places import calling_place
from holdfast.replay.requests import Operation, Request, is_limit

MOST_TOLD: Final = 10
"""How many operations an error names."""

REMEDY: Final = (
    'Bring back what it was, or fork old and new code with hf.patched("name"), or give what is new another name. '
    "Nothing recorded has changed: the execution goes on by itself when the code fits"
)

ANOTHER_PATH: Final = (
    "The same body took another path: look for random(), time(), environment or global state in it and in what it "
    "calls, and use hf.random(), hf.now() or a step instead; or for changed code in another module that it calls: "
    "bring that back"
)

NOTHING: Final[frozenset[str]] = frozenset()
NO_OPERATIONS: Final[dict[str, str]] = {}
NO_OUTCOMES: Final[dict[str, Done | Failed]] = {}
REPLAYED: Final = (*DELIVERIES, Resumed)

Requests = Mapping[str, Request]
"""What a body waits for, by identity."""


class Past:
    """The entries that a body has not got yet, and what earlier code asked for, if that was other code.

    ``strict``: this very code wrote them, so each must be asked for exactly in its turn. ``untouched``: no process has
    worked on the execution before. The first ``carried`` of them are messages of the run before, which no code of this
    one has recorded.
    """

    __slots__ = (
        "_backlog",
        "_begins",
        "_earlier",
        "_marks",
        "_passed_over",
        "_reached",
        "_under_way",
        "continues",
        "reopened",
        "retries",
    )

    def __init__(
        self,
        recorded: Sequence[Entry],
        *,
        strict: bool,
        untouched: bool,
        steps: Container[str] | None = None,
        carried: int = 0,
    ) -> None:
        self._backlog: Backlog | None = None
        self._earlier = None if strict else EarlierCode(recorded, known=bool(recorded) or untouched, steps=steps)
        self._marks = self._reached = NOTHING
        self._begins = len(recorded) == carried
        self._under_way: dict[str, str] = NO_OPERATIONS
        self._passed_over: dict[str, Done | Failed] = NO_OUTCOMES
        self.continues = False
        """Whether the body waited where it will wait now, when the last entry was recorded."""
        self.reopened = False
        """Whether it was retried, and nothing was recorded since."""
        self.retries = 0
        """How often it had been retried when the body came to where it is."""
        if recorded:
            self._take_in(recorded, strict=strict)

    def _take_in(self, recorded: Sequence[Entry], *, strict: bool) -> None:
        replayed: list[Replayed] = []
        begun: dict[str, str] = {}
        marks: set[str] = set()
        reached: set[str] = set()
        for entry in recorded:
            if isinstance(entry, Pending):
                begun.update(entry.operations)
                if entry.waits:
                    reached.update(entry.waits)
            elif isinstance(entry, REPLAYED):
                replayed.append(entry)
            elif isinstance(entry, (Tried, Intended)):
                begun.setdefault(entry.op, entry.fingerprint)
            elif isinstance(entry, Marked):
                marks.add(entry.id)
        self._marks, self._reached = frozenset(marks), frozenset(reached)
        if replayed:
            self._backlog = Backlog(replayed, strict=strict)
            self.reopened = isinstance(last := replayed[-1], Resumed) and last.retries > 0
            self.continues = strict and not self.reopened
        if strict and begun:
            finished = NO_OPERATIONS if self._backlog is None else self._backlog.positions
            self._under_way = {op: digest for op, digest in begun.items() if op not in finished}

    # ── What comes next ─────────────────────────────────────────────────────────────────────────────────────────────

    @property
    def is_of_this_code(self) -> bool:
        """Whether no other code has worked on the execution."""
        return self._earlier is None

    @property
    def is_over(self) -> bool:
        """Whether every recorded entry was delivered or passed over."""
        return self._backlog is None

    @property
    def is_settled(self) -> bool:
        """Whether nothing is left that the code could disagree with."""
        return self._backlog is None and self._earlier is None and not self._under_way

    @property
    def outcomes(self) -> Sequence[Done | Failed]:
        """The outcomes that were not delivered yet, in order."""
        return () if self._backlog is None else self._backlog.outcomes()

    def append(self, message: Delivery) -> None:
        """A message that has just come, and has to wait for what was recorded before it."""
        assert self._backlog is not None
        self._backlog.append(message)

    def take(self, requested: Requests) -> Replayed | None:
        """The entry that comes next; ``None`` if the body waits for none, or for another one."""
        backlog = self._backlog
        if backlog is None:
            return None
        entry = backlog.take(requested)
        if entry is None and self._pass_over_timers(requested):
            entry = backlog.take(requested)
        if backlog.exhausted:
            self._backlog = None
        if isinstance(entry, Resumed):
            self.retries = max(self.retries, entry.retries)
        return entry

    def _pass_over_timers(self, requested: Requests) -> bool:
        """Leave out timers that other code does not ask for, if nothing else keeps it from what comes behind them."""
        left = self.outcomes
        if self._backlog is None or self._earlier is None or not left or self._makes_progress(requested):
            return False
        if any(entry.kind != TIMER for entry in left):
            return False
        timers = [entry.op for entry in left]
        self._earlier.pass_over(timers)
        self._backlog.pass_over(timers)
        self._passed_over = {**self._passed_over, **dict(zip(timers, left, strict=True))}
        return True

    def _makes_progress(self, requested: Requests) -> bool:
        """Whether the body waits for something that earlier code did not wait for: it may come to the rest by that."""
        assert self._earlier is not None
        return any(not (self._earlier.knows(op) or is_limit(each)) for op, each in requested.items())

    def _runs_on(self, requested: Requests) -> bool:
        """Whether a step runs that earlier code began: code without it may have gone on, and been taken back."""
        assert self._earlier is not None and self._backlog is not None
        finished = self._backlog.positions
        return any(
            each.kind == STEP and self._earlier.knows(op) and op not in finished for op, each in requested.items()
        )

    # ── What the code asks for ──────────────────────────────────────────────────────────────────────────────────────

    def ask(self, request: Request) -> str | bool:
        """The body asks for this: whether its outcome is recorded, and comes in its turn; or why it may not ask."""
        if self._passed_over and request.id in self._passed_over:
            self._bring_back(request.id)
        entry = None if self._backlog is None else self._backlog.ask(request.id)
        if entry is not None and not (entry.kind == request.kind and request.fits(entry.fingerprint)):
            return _change(entry, request)
        if self._earlier is not None:
            return self._refusal(self._earlier, request) or entry is not None
        if self._under_way and not request.fits(self._under_way.pop(request.id, "")):
            return _other_arguments(request)
        return entry is not None

    def _bring_back(self, timer: str) -> None:
        """The body comes to a timer all the same, by what it began itself: it has gone off, and does so once (G2)."""
        if self._backlog is None:
            self._backlog = Backlog((), strict=False)
        self._backlog.bring_back(self._passed_over.pop(timer))

    def _refusal(self, earlier: EarlierCode, request: Request) -> str | None:
        if self._backlog is not None and self._backlog.is_over(request.id):
            return (
                f"{request.id} was passed over, and is asked for all the same ({calling_place()}): it was moved "
                f"behind what was recorded after it, or hf.removed() names it although it is still called. {REMEDY}"
            )
        return _conflict(earlier, request)

    def refusal_of_wait(self, wait: str) -> str | None:
        """Why the body may not wait for a message here; ``None`` if it may."""
        earlier = self._earlier
        if earlier is None:
            return None
        is_known = earlier.knows(wait)
        earlier.asks(wait)
        told = earlier.conflicting_signal(wait)
        return None if told is None or is_known else f"{told} ({calling_place()}). {REMEDY}"

    def below(self, beginning: str) -> str | None:
        """An operation whose path begins so, and that is recorded as done or under way; ``None`` if there is none."""
        done = NOTHING if self._backlog is None else self._backlog.positions
        return next((op for known in (done, self._under_way) for op in known if op.startswith(beginning)), None)

    def has_reached(self, wait: str) -> bool:
        """Whether it is recorded that a body has come to this wait."""
        return wait in self._reached

    def remove(self, names: Iterable[str], requested: Requests) -> None:
        """This code does without operations of these names, finished or not."""
        if self._earlier is None:
            removed = set(names)
            for op in [op for op in self._under_way if op in removed or name_of(op) in removed]:
                del self._under_way[op]
            return
        self._earlier.remove(names)
        if self._backlog is not None:
            left = [entry.op for entry in self.outcomes if entry.op not in requested]
            self._backlog.pass_over(op for op in left if self._earlier.is_removed(op))

    # ── How far earlier code has come ───────────────────────────────────────────────────────────────────────────────

    def is_marked(self, patch: str) -> bool:
        """Whether code that knows this patch has passed it."""
        return patch in self._marks

    def is_behind(self, *, live: bool) -> bool:
        """Whether no code has come as far as this body now, as far as is recorded."""
        is_over = self.is_over or self._begins
        if self._earlier is None:
            return live or is_over
        return is_over and not self._earlier.passed and (self._earlier.known or live)

    @property
    def unasked(self) -> Sequence[str]:
        """What earlier code finished or began, and this code has not asked for so far."""
        return () if self._earlier is None else self._earlier.unasked()

    def mismatch(self, requested: Requests, waits_for: Callable[[], str], *, has_ended: bool) -> str | None:
        """Why the code may not go on, now that it waits or has ended; ``None`` if it may."""
        if self._earlier is not None:
            return self._unasked(self._earlier, requested, waits_for, has_ended=has_ended)
        if self._backlog is None and not (self._under_way and has_ended):
            return None
        if self._backlog is None:
            told = f"{_listed(self._under_way)} had begun, and this body does not ask for it: it"
        else:
            first = self._backlog.first
            assert isinstance(first, (Done, Failed))  # the others need no asking
            told = f"{first.op} ({first.kind}) came next, but the code now"
        return f"the journal says that {told} waits for {waits_for()}. {ANOTHER_PATH}"

    def _unasked(
        self, earlier: EarlierCode, requested: Requests, waits_for: Callable[[], str], *, has_ended: bool
    ) -> str | None:
        """Whether an operation that earlier code finished, or has under way, is not asked for any more."""
        unasked = earlier.unasked()
        if not unasked:
            return None
        is_left = any(entry.kind != TIMER for entry in self.outcomes)
        if not has_ended and (not is_left or self._makes_progress(requested) or self._runs_on(requested)):
            return None
        told = _listed(unasked)
        names = ", ".join(f'"{name}"' for name in sorted({name_of(op) for op in unasked})[:MOST_TOLD])
        return (
            f"earlier code finished or began {told}, and this code does not ask for it: it waits for {waits_for()}. "
            f"Bring the call back to its place, or declare with hf.removed({names}) that the workflow does without it "
            "now"
        )


NO_PAST: Final = Past((), strict=True, untouched=True)
"""That of bodies of which nothing is recorded. They share it, for sleepers are many: nothing about it changes."""


def _listed(ops: Collection[str]) -> str:
    return ", ".join(list(ops)[:MOST_TOLD]) + (" and others" if len(ops) > MOST_TOLD else "")


def _change(entry: Done | Failed, request: Request) -> str:
    if entry.kind == request.kind != TIMER:
        return _other_arguments(request)
    changed = (
        f"was a {entry.kind} and is now a {request.kind}"
        if entry.kind != request.kind
        else f"lasted {entry.fingerprint} and now lasts {request.fingerprint}"
    )
    return f"{request.id}: the journal and the code disagree: it {changed} ({calling_place()}). {REMEDY}"


def _conflict(earlier: EarlierCode, request: Request) -> str | None:
    op, is_operation = request.id, isinstance(request, Operation)
    if not earlier.knows(op):
        told = earlier.conflict(op, request.name, request.fingerprint) if isinstance(request, Operation) else None
        return None if told is None else f"{told} ({calling_place()}). {REMEDY}"
    earlier.asks(op)
    return _other_arguments(request) if is_operation and not request.fits(earlier.fingerprint(op)) else None


def _other_arguments(request: Request) -> str:
    """No digest tells what they were: with it, a guess of them could be confirmed."""
    return (
        f"{request.id}: the journal and the code disagree: it is called with other arguments now, at "
        f"{calling_place()}. {REMEDY}"
    )
