"""One body in memory: a pure function of the entries it is given (DESIGN idea 6).

No I/O happens here. The body runs on a private loop until nothing is ready; what it then waits for are requests that
the outside answers with entries, one at a time. Replay is feeding it the journal: at every quiescent point the
earliest recorded entry among the requested ones is delivered, so races, timeouts and ``asyncio.wait`` repeat
themselves.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Coroutine, Sequence
from random import Random
from typing import Any, Final

from msgspec import UNSET, Raw

from holdfast.errors import Evicted, NondeterminismError
from holdfast.failure import ErrorRecord
from holdfast.kernel.backlog import Backlog
from holdfast.kernel.entries import DELIVERIES, Cancelled, Delivery, Done, Entry, Failed, Marked, Received
from holdfast.kernel.loop import DurableLoop
from holdfast.kernel.requests import (
    RUNNING,
    Decode,
    DueTimer,
    Operation,
    Outcome,
    Raised,
    Request,
    Returned,
    TimerDue,
    Wants,
)
from holdfast.kernel.tasks import Handle, Timer

MOST_REFUSALS: Final = 1_000
"""How often a body that is leaving memory may ask for something and be refused."""


CANCELLATIONS: Final = 100
"""So often a task that outlives its body, and waits for no operation, is cancelled before it is given up on."""


class Activation:
    """A body, its loop, what it has asked for and what the journal still holds for it.

    ``strict`` says that this very code wrote the journal: then every entry must be wanted exactly in its turn, and
    anything else is ``NondeterminismError``. Other code is matched by identity instead: steps may have been added,
    removed or moved, but one that changed its kind or arguments is an error (G13).
    """

    __slots__ = (
        "_backlog",
        "_body",
        "_ending",
        "_given_up",
        "_live",
        "_mailboxes",
        "_main",
        "_old_marks",
        "_patches",
        "_random",
        "_refusals",
        "_seed",
        "_wants",
        "broken",
        "cancelled",
        "cancelled_late",
        "context",
        "looking",
        "loop",
        "outcome",
        "queries",
        "rebuild",
        "repeats",
        "requested",
    )

    def __init__(
        self,
        body: Callable[[], Coroutine[Any, Any, Any]],
        *,
        recorded: Sequence[Entry],
        started_at: int,
        seed: str,
        strict: bool,
        rebuild: Callable[[ErrorRecord], Exception],
    ) -> None:
        # The loop is complete: what it does not implement it refuses by name, which type checkers cannot see.
        self.loop = DurableLoop(started_at / 1000, self)  # type: ignore[abstract]
        self.context: Any = None
        self.rebuild = rebuild
        self.cancelled: Cancelled | None = None
        self.cancelled_late = False
        self._ending = self._given_up = False
        self.broken: NondeterminismError | None = None
        self.queries: dict[str, Callable[[], Any]] = {}
        self.repeats = False
        self.looking = False
        self.requested: dict[str, Request] = {}
        self.outcome: Outcome = RUNNING
        self._wants: Wants | None = None
        self._body = body
        self._seed = seed
        self._random: Random | None = None
        self._mailboxes: dict[str, asyncio.Queue[Raw]] = {}
        self._patches: dict[str, bool] = {}
        self._refusals = 0
        self._live = False
        deliveries = [entry for entry in recorded if isinstance(entry, DELIVERIES)]
        self._backlog = Backlog(deliveries, strict=strict) if deliveries else None
        self._old_marks = tuple(entry.id for entry in recorded if isinstance(entry, Marked))

    # ── For whoever drives it ───────────────────────────────────────────────────────────────────────────────────────

    def begin(self) -> None:
        """Start the body and replay all that is recorded.

        ``repeats`` says that some of it is: whatever is recorded, the body has been up to its next wait before.
        ``looking`` says that nothing will come of it.
        """
        self._main = self.loop.create_task(self._body())
        self.loop.call(self._advance)
        self.repeats = False

    def deliver(self, entry: Delivery, value: Any = UNSET) -> None:
        """Give the body one new entry and run it until it waits again."""
        self.loop.call(self._apply_and_advance, entry, value)

    @property
    def replaying(self) -> bool:
        """Whether recorded entries are still to be delivered."""
        return not self._live and self._backlog is not None

    @property
    def quiet(self) -> bool:
        """Whether the body only repeats itself, or is being looked at, or thrown away: it shall not log then."""
        return self.repeats or self.looking or self.loop.evicting

    def ask(self, query: str) -> Any:
        """The answer of a function that the body exposed, called as the body would call it."""
        answers: list[Any] = []
        self.loop.call(lambda: answers.append(self.queries[query]()))
        return answers[0]

    # ── What it wants, since it was last asked ──────────────────────────────────────────────────────────────────────

    def take_wants(self) -> Wants | None:
        """What the body wants and no longer wants since this was last called; ``None`` if nothing has changed."""
        if self.requested and self.outcome is not RUNNING:  # what it asked for and did not wait for is not wanted
            self._new_wants().withdrawn += self.requested.values()
            self.requested.clear()
        wants, self._wants = self._wants, None
        if wants is not None:
            wants.asked = [request for request in wants.asked if request.id in self.requested]
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

    def unread_messages(self) -> list[tuple[str, Raw]]:
        """The messages nobody has taken, by name. They stay where they are: who asks may have to ask again."""
        unread: list[tuple[str, Raw]] = []
        for name, box in self._mailboxes.items():
            for _ in range(box.qsize()):
                message = box.get_nowait()
                box.put_nowait(message)
                unread.append((name, message))
        return unread

    def evict(self) -> None:
        """Leave memory. The body's ``finally`` blocks run, their durable operations do not."""
        if self.loop.evicting:
            return
        self.loop.evict()
        self.requested.clear()
        self.context = None
        self.outcome = RUNNING  # an error holds the frames of the body, and they hold us
        del self._main  # and so does the task that it ended

    def _apply_and_advance(self, entry: Delivery, value: Any) -> None:
        self._apply(entry, value)
        self._advance()

    def _advance(self) -> None:
        self._run()
        while (entry := self._next_recorded()) is not None:
            self._apply(entry, UNSET)
            self._run()
        self._live = True
        self.outcome = self._outcome()

    def _run(self) -> None:
        """Run until the body waits. Once it has ended, what it leaves behind is cancelled, live as in replay.

        That comes once, because a clean-up may wait for operations too; and again for tasks that wait for no operation
        at all (a full queue, say, that nobody empties), since nothing else would ever end them.
        """
        self.loop.run_until_quiescent()
        if not self._main.done():
            return
        for _ in range(CANCELLATIONS):
            if (self._ending and self.requested) or not self.loop.live_tasks():
                return
            self._ending = True
            self._cancel_leftover_tasks()
        self._given_up = True

    def _outcome(self) -> Outcome:
        if not self._main.done() or (self.loop.live_tasks() and not self._given_up):
            return RUNNING
        try:
            error = self._main.exception()  # not raised here: its traceback would hold whoever drives us
        except asyncio.CancelledError as cancelled:
            return Raised(cancelled)
        return Returned(self._main.result()) if error is None else Raised(error)

    def _next_recorded(self) -> Delivery | None:
        backlog = self._backlog
        if backlog is None or self.broken is not None:
            return None
        entry = backlog.take(self.requested)
        if backlog.exhausted:
            self._backlog = None
        elif entry is None and backlog.strict:
            self._break_at(backlog.first)
        return entry

    def _break_at(self, entry: Delivery) -> None:
        assert isinstance(entry, (Done, Failed))  # the others are always wanted
        wanted = ", ".join(sorted(self.requested)) or "nothing"
        ended = " and has ended" if self._main.done() else ""
        self._break(
            f"the journal says that {entry.op} ({entry.kind}) came next, but the code now waits for {wanted}{ended}. "
            "The same code took another path: look for random(), time(), environment or global state in the body, and "
            "use hf.random(), hf.now() or a step instead"
        )

    def _apply(self, entry: Delivery, value: Any) -> None:
        self.loop.now = max(self.loop.now, entry.at / 1000)
        match entry:
            case Done() | Failed():
                self.requested.pop(entry.op).settle(entry, value, self.rebuild)
            case Received():
                self.mailbox(entry.name).put_nowait(entry.value)
            case Cancelled():
                self.cancelled = entry
                self.cancelled_late = self._main.done()
                self._main.cancel(entry.reason)

    def _cancel_leftover_tasks(self) -> None:
        for task in self.loop.live_tasks():
            task.cancel("the workflow body has ended")
        self.loop.run_until_quiescent()

    def _break(self, message: str) -> NondeterminismError:
        self.broken = self.broken or NondeterminismError(message)
        return self.broken

    # ── For operations, called from the body ────────────────────────────────────────────────────────────────────────

    def request(self, kind: str, name: str, command: Any, *, fingerprint: str = "", decode: Decode) -> Operation:
        """Ask the outside for something. Await what comes back."""
        if self.loop.evicting:
            self._refuse()
            return Operation(self.loop, name, kind, command, fingerprint, decode)  # it is never answered
        operation = Operation(self.loop, self.loop.current_path(name), kind, command, fingerprint, decode)
        operation.withdrawn = self._withdraw
        self._register(operation)
        return operation

    def mailbox(self, name: str) -> asyncio.Queue[Raw]:
        """The messages called ``name`` that nobody has taken yet, first in, first out."""
        if name not in self._mailboxes:
            self._mailboxes[name] = asyncio.Queue()
        return self._mailboxes[name]

    def close_callback(self, op: str) -> None:
        """Nobody waits for this callback any more: a later answer is to be refused."""
        self._new_wants().closed_callbacks.append(op)

    def mark(self, id: str) -> None:
        """Note something in the journal, for later replays to know."""
        self._new_wants().marked.append(Marked(id, self.now_ms))

    def patched(self, id: str) -> bool:
        """True on an execution that never passed here under code without this patch."""
        if id not in self._patches:
            live = not self.replaying
            if live and id not in self._old_marks:
                self.mark(id)
            self._patches[id] = live or id in self._old_marks
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
        if self.loop.evicting:
            return Timer(when, handle)  # never fires; raising would leave a coroutine of wait_for unawaited
        due_at = math.ceil(round(when * 1000, 3))
        timer = DueTimer(when, handle, self.loop, self.loop.current_path("timer"), TimerDue(due_at), self._withdraw)
        self._register(timer)
        return timer

    def _refuse(self) -> None:
        """The body is leaving memory. One that catches even that, and asks again and again, is left to wait instead."""
        self._refusals += 1
        if self._refusals <= MOST_REFUSALS:
            raise Evicted

    def _register(self, request: Request) -> None:
        self.requested[request.id] = request
        backlog = self._backlog
        entry = None if backlog is None else backlog.of(request.id)
        if backlog is None or entry is None:
            self._new_wants().asked.append(request)
            return
        self._check_same(entry, request)
        backlog.want(request.id)

    def _check_same(self, entry: Delivery, request: Request) -> None:
        assert isinstance(entry, (Done, Failed))
        if entry.kind == request.kind and entry.fingerprint in ("", request.fingerprint):
            return
        changed = (
            f"was a {entry.kind} and is now a {request.kind}"
            if entry.kind != request.kind
            else f"was called with other arguments (digest {entry.fingerprint}, now {request.fingerprint})"
        )
        raise self._break(
            f"{request.id}: the journal and the code disagree: it {changed}. Keep what finished executions' code "
            'asked for, or fork with hf.patched("name"), or give the changed step a new name'
        )

    def _withdraw(self, request: Request) -> None:
        if self.requested.pop(request.id, None) is not None:
            self._new_wants().withdrawn.append(request)
