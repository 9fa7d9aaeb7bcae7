"""One body in memory: a pure function of the entries it is given (DESIGN idea 6).

No I/O happens here. The body runs on a private loop until nothing is ready; what it then waits for are requests that
the outside answers with entries, one at a time. Replay is feeding it the journal: at every quiescent point the
earliest recorded entry among the requested ones is delivered, so races, timeouts and ``asyncio.wait`` repeat
themselves.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Container, Coroutine, Sequence
from random import Random
from typing import Any, Final

from msgspec import UNSET

from holdfast.errors import DeterminismError, Evicted, InvalidInput, NondeterminismError, Runaway
from holdfast.failure import ErrorRecord
from holdfast.replay.entries import (
    Cancelled,
    Delivery,
    Done,
    Entry,
    Failed,
    Forked,
    Marked,
    Received,
    Replayed,
    Resumed,
)
from holdfast.replay.loop import DurableLoop
from holdfast.replay.mailbox import Mailboxes
from holdfast.replay.main_task import MainTask
from holdfast.replay.past import NO_PAST, Past
from holdfast.replay.requests import RUNNING, Decode, DueTimer, Operation, Outcome, Request, Waker, Wants
from holdfast.replay.tasks import Handle, Timer, timer_name
from holdfast.replay.wait_times import late_timers, resume
from holdfast.replay.waiting import stuck

MOST_REFUSALS: Final = 1_000
"""How often a body that is leaving memory may ask for something and be refused."""

OLD_TIMER_NAME: Final = "timer"
"""The name of every timer in a journal of the old format."""

NOTHING: Final[dict[str, Any]] = {}
"""What most bodies have named, marked or exposed. They share it: sleepers are many. The first entry makes another."""


class Activation:
    """A body, its loop, what it has asked for and what the journal still holds for it.

    ``strict`` says that this very code wrote the journal: then every entry must be wanted exactly in its turn, and
    anything else is ``NondeterminismError``. What other code wrote is matched by identity instead: ``Past`` says what
    may have changed (G13). ``untouched``: no process has worked on it before. ``names_timers``: false for a journal of
    the old format. ``steps`` are those that the code has, by name.
    """

    __slots__ = (
        "_body",
        "_fresh",
        "_live",
        "_names_timers",
        "_patches",
        "_random",
        "_refusals",
        "_seed",
        "_wants",
        "broken",
        "context",
        "looking",
        "loop",
        "mailboxes",
        "main",
        "named",
        "names_by_item",
        "outcome",
        "past",
        "prompters",
        "queries",
        "rebuild",
        "repeats",
        "requested",
        "waker",
    )

    def __init__(  # noqa: PLR0913 - what a body is made of
        self,
        body: Callable[[], Coroutine[Any, Any, Any]],
        *,
        recorded: Sequence[Entry],
        started_at: int,
        seed: str,
        strict: bool,
        rebuild: Callable[[ErrorRecord], Exception],
        untouched: bool = False,
        names_timers: bool = True,
        steps: Container[str] | None = None,
        carried: int = 0,
    ) -> None:
        # The loop is complete: what it does not implement it refuses by name, which type checkers cannot see.
        self.loop = DurableLoop(started_at / 1000, self)  # type: ignore[abstract]
        self.context: Any = None
        self.rebuild = rebuild
        self.main: MainTask  # from when it begins until it leaves memory
        self.broken: DeterminismError | None = None
        self.queries: dict[str, Callable[[], Any]] = NOTHING
        self.repeats = self.looking = False
        self.names_by_item = True
        self.named: dict[str, str] = NOTHING
        self.prompters: tuple[Callable[[str], bool], ...] = ()
        self.requested: dict[str, Request] = {}
        self.outcome: Outcome = RUNNING
        self.waker: Waker | None = None  # it is only looked at, or tested
        self._wants: Wants | None = None
        self._body, self._seed = body, seed
        self._random: Random | None = None
        self.mailboxes = Mailboxes()
        self._patches: dict[str, bool] = NOTHING
        self._refusals = 0
        self._live = False
        self._names_timers = names_timers
        self._fresh: tuple[DueTimer, ...] = ()  # the timers asked for since the last entry, until the body is live
        self.past = NO_PAST  # what follows asks it nothing, for speed: most bodies have no past
        if recorded or not strict:
            self.past = Past(recorded, strict=strict, untouched=untouched, steps=steps, carried=carried)

    # ── For its driver ────────────────────────────────────────────────────────────────────────────────────────────────

    def begin(self, now: int | None = None) -> None:
        """Start the body and replay all that is recorded. ``now`` (milliseconds): the body goes on from there.

        ``repeats`` says that some of it is: whatever is recorded, the body has been up to its next wait before.
        ``looking`` says that nothing will come of it.
        """
        self.loop.call(self._start)
        self.repeats = False
        fresh, self._fresh = self._fresh, ()
        if (fresh or self.past.reopened) and now is not None and self._names_timers and not self.past.continues:
            late = late_timers(fresh, self.requested, self.past, self.now_ms, now)
            if late is not None:
                self._new_wants().notes += (late,)

    def deliver(self, entry: Delivery, value: Any = UNSET) -> None:
        """Give the body one new entry and run it until it waits again.

        A message waits for what was recorded before it and not delivered yet.
        """
        if isinstance(entry, (Received, Cancelled)) and not self.past.is_over:
            self.past.append(entry)
            self.loop.call(self._advance)
        else:
            self.loop.call(self._apply_and_advance, entry, value)

    def interrupt(self) -> None:
        """Raise in the body what came to its loop from elsewhere since, if anything did. ``waker`` is called then."""
        if self.loop.intruded and self.outcome is RUNNING and self.broken is None:
            self.loop.call(self._interrupt)

    @property
    def replaying(self) -> bool:
        """Whether recorded entries are still to be delivered."""
        return not self._live and not self.past.is_over

    @property
    def quiet(self) -> bool:
        """Whether the body only repeats itself, or is being looked at, or thrown away: it shall not log then."""
        return self.repeats or self.looking or self.loop.evicting

    def ask(self, query: str) -> Any:
        """The answer of a function that the body exposed, called as the body would call it."""
        answers: list[Any] = []
        self.loop.asking = True
        try:
            self.loop.call(lambda: answers.append(self.queries[query]()))
        finally:
            self.loop.asking = False
        return answers[0]

    # ── What it wants, since it was last asked ──────────────────────────────────────────────────────────────────────

    def take_wants(self) -> Wants | None:
        """What the body wants and no longer wants since this was last called; ``None`` if nothing has changed."""
        if self.requested and self.outcome is not RUNNING:  # what it asked for and did not wait for is not wanted
            self._new_wants().withdrawn += self.requested.values()
            self.requested.clear()
        wants, self._wants = self._wants, None
        if wants is not None:
            wants.asked = [request for request in wants.begun if request.id in self.requested]
        return wants

    def _new_wants(self) -> Wants:
        if self._wants is None:
            self._wants = Wants()
        return self._wants

    def abandon(self) -> list[str]:
        """Forget every request without a trace: the body and its journal disagree."""
        abandoned = list(self.requested)
        self.requested.clear()
        self._wants = None
        return abandoned

    def stuck(self) -> str | None:
        """Why nothing from outside can ever wake the body, if it waits and nothing can."""
        if self.outcome is not RUNNING or self.broken is not None or self.requested or not self.past.is_over:
            return None
        if self.loop.intruded or self.mailboxes.waiting:
            return None
        return stuck(self.loop.live_tasks())

    def evict(self) -> None:
        """Leave memory. The body's ``finally`` blocks run, their durable operations do not."""
        if self.loop.evicting:
            return
        self.loop.evict()
        self.requested.clear()
        self.context = self.waker = None
        self.outcome = RUNNING  # an error holds the frames of the body, and they hold us
        if self._live:
            self.main.leave()  # and so does the task that it ended
            del self.main

    def _start(self) -> None:
        self.main = MainTask(self.loop, self._body())
        del self._body
        self._advance()

    def _interrupt(self) -> None:
        self.loop.reject_intrusions()
        self._advance()

    def _apply_and_advance(self, entry: Delivery, value: Any) -> None:
        self._apply(entry, value)
        self._advance()

    def _advance(self) -> None:
        main = self.main
        try:
            main.run(self.requested)
            if self.past is not NO_PAST and not self.past.is_settled:
                self._replay(main)
        except Runaway as runaway:
            self.broken = self.broken or runaway
        self._live = True
        self.outcome = main.outcome() if main.is_over else RUNNING

    def _replay(self, main: MainTask) -> None:
        while (entry := self._next_recorded()) is not None:
            self._apply(entry, UNSET)
            main.run(self.requested)
        if told := self.past.mismatch(self.requested, self._waits_for, has_ended=main.has_ended):
            self.break_off(told)  # it does not fit what earlier code has done (G13)

    def _next_recorded(self) -> Replayed | None:
        if self.broken is not None:
            return None
        entry = self.past.take(self.requested)
        # Something that is recorded may have to be started before this code would start it.
        while (
            entry is None
            and not self._live
            and any(ask(each.op) for ask in self.prompters for each in self.past.outcomes)
        ):
            self.main.run(self.requested)
            entry = self.past.take(self.requested)
        return entry

    def _waits_for(self) -> str:
        if self.main.has_ended:
            return "nothing and has ended"
        wanted = ", ".join(sorted(self.requested)) or "a message"
        return f"{wanted} ({self.main.place})" if self.main.place else wanted

    def _apply(self, entry: Replayed, value: Any) -> None:
        if isinstance(entry, Resumed):
            resume(self.requested, entry)
            return
        self._fresh = ()
        self.loop.now = max(self.loop.now, entry.at / 1000)
        match entry:
            case Done() | Failed():
                request = self.requested.pop(entry.op)
                try:
                    request.settle(entry, value, self.rebuild)
                except Exception as unfit:  # noqa: BLE001 - whatever a decoder of the user's raises
                    self.break_off(f"{entry.op}: what is recorded does not fit the code's type any more: {unfit}")
            case Received():
                self.mailboxes.of(entry.name).put(entry.value)
            case Cancelled():
                self.main.cancel(entry)
            case Forked():
                self._random = Random(entry.seed)

    def break_off(self, message: str) -> DeterminismError:
        """The code does not fit what is recorded: nothing may come of this body any more. Answers what to raise."""
        self.broken = self.broken or NondeterminismError(message)
        return self.broken

    # ── For operations, called from the body ────────────────────────────────────────────────────────────────────────

    def request(
        self,
        kind: str,
        name: str,
        command: Any,
        *,
        fingerprint: str = "",
        formerly: str = "",
        decode: Decode,
        id: str | None = None,
    ) -> Operation:
        """Ask the outside for something. Await what comes back.

        Its identity follows from its place and its name, unless it has an ``id``. ``formerly``: see ``Operation``.
        """
        if self.loop.evicting:
            self._refuse()
            return Operation(self.loop, name, name, kind, command, fingerprint, decode)  # it is never answered
        op = self.loop.current_path(name) if id is None else self._claimed(id, f"{kind} {name!r}")
        operation = Operation(self.loop, op, name, kind, command, fingerprint, decode, formerly)
        self._register(operation)
        return operation

    def _claimed(self, id: str, what: str) -> str:
        if id in self.named:
            raise InvalidInput(
                f"{id!r} names one operation of a run, and two ask for it: {self.named[id]}, and now {what}. Give each "
                "a name of its own"
            )
        self.named = self.named or {}
        self.named[id] = what
        return id

    def awaits_message(self, name: str) -> None:
        """The body waits for a message: other code has to know how far it has come."""
        op = self.loop.current_path(name)
        if (refusal := self.past.refusal_of_wait(op)) is not None:
            raise self.break_off(refusal)
        if not self.past.has_reached(op):
            self._new_wants().waits += (op,)

    def close_callback(self, op: str) -> None:
        """The body no longer waits for this callback: a later answer is to be refused."""
        self._new_wants().closed_callbacks += (op,)

    def mark(self, id: str) -> None:
        """Note something in the journal, for later replays to know."""
        self._new_wants().marked += (Marked(id, self.now_ms),)

    def patched(self, id: str) -> bool:
        """True on an execution that never passed here under code without this patch."""
        if id not in self._patches:
            is_marked, is_new_here = self.past.is_marked(id), self.past.is_behind(live=self._live)
            if is_new_here and not is_marked:
                self.mark(id)
            self._patches = {**self._patches, id: is_new_here or is_marked}
        return self._patches[id]

    @property
    def now_ms(self) -> int:
        """The time recorded with the last delivered entry, in milliseconds."""
        return math.floor(self.loop.now * 1000 + 0.5)

    @property
    def random(self) -> Random:
        """A generator that yields the same numbers on every replay."""
        if self._random is None:
            self._random = Random(self._seed)
        return self._random

    def start_timer(self, when: float, handle: Handle) -> Timer:
        self.loop.refuse_in_query("a timer")
        if self.loop.evicting:
            return Timer(when, handle)  # never fires; raising would leave a coroutine of wait_for unawaited
        name = timer_name(handle) if self._names_timers else OLD_TIMER_NAME
        timer = DueTimer(when, handle, self.loop, self.loop.current_path(name))
        if not self._live:
            self._fresh += (timer,)
        self._register(timer)
        return timer

    def _refuse(self) -> None:
        """The body is leaving memory. One that catches even that, and asks again and again, is left to wait instead."""
        self._refusals += 1
        if self._refusals <= MOST_REFUSALS:
            raise Evicted

    def _register(self, request: Request) -> None:
        is_recorded = False if self.past is NO_PAST else self.past.ask(request)
        if isinstance(is_recorded, str):
            raise self.break_off(is_recorded)
        self.requested[request.id] = request
        if not is_recorded:
            self._new_wants().begun.append(request)

    def _withdraw(self, request: Request) -> None:
        if self.requested.pop(request.id, None) is not None:
            self._new_wants().withdrawn.append(request)
