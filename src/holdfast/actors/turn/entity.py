"""An actor in memory: its state, the calls that wait for it, and what has run and is not yet durable."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterable
from contextlib import suppress
from heapq import heappop, heappush
from typing import TYPE_CHECKING, Final, TypeGuard

from msgspec import Struct

from holdfast.actors.record import ActorRecord, Call, Reply, decode_call, key_of, timer_call, timer_place
from holdfast.coordination.inbox import INBOX_PREFIX
from holdfast.coordination.schedule import ticks_to_run
from holdfast.items import HEAD, Item, Put, Write
from holdfast.kernel.entity import Entity
from holdfast.kernel.model import Model

if TYPE_CHECKING:
    from holdfast.actors.kind import Instance, Kind

Answer = asyncio.Future["Outcome"]


class Replied(Struct, frozen=True):
    """The call was applied: ``data`` is the encoded result. Or the actor's code raised ``error``, and it was not."""

    data: bytes = b""
    error: Exception | None = None


class Elsewhere(Struct, frozen=True):
    """The call was not applied: the actor lives in another process. Send the call there."""


Outcome = Replied | Elsewhere
ELSEWHERE: Final = Elsewhere()

MOST_PASSED_OVER: Final = 100
"""So many calls may run before a message that was sent later, as far as clocks tell: theirs may be wrong."""


class Delivery:
    """A call on its way through an actor. ``sort`` is its place in the inbox, ``timer`` the timer that made it and
    ``tick`` the time it is for, if it is to run at all; ``answer`` is whoever waits for it in this process.
    ``prepared``: that it begins to run is durable. ``behind``: the look into the inbox that it comes after.
    """

    __slots__ = ("answer", "behind", "call", "prepared", "sort", "tick", "timer")

    def __init__(
        self,
        call: Call,
        *,
        answer: Answer | None = None,
        sort: str | None = None,
        timer: str | None = None,
        tick: int | None = None,
    ) -> None:
        self.call = call
        self.answer = answer
        self.sort = sort
        self.timer = timer
        self.tick = tick
        self.prepared = False
        self.behind = 0

    @property
    def place(self) -> str:
        """What identifies it among the durable messages and timers of its actor; empty for a call from memory."""
        return self.sort or (timer_place(self.timer) if self.timer else "")

    @property
    def skips(self) -> bool:
        """Whether it is a timer's whose tick was missed, and is to be dropped."""
        return self.timer is not None and self.tick is None

    def tell(self, outcome: Outcome) -> None:
        """Tell whoever waits in this process."""
        if self.answer is not None and not self.answer.done():
            self.answer.set_result(outcome)

    def fail(self, error: Exception) -> None:
        """Tell whoever waits in this process that something is wrong beside the call itself."""
        if self.answer is not None and not self.answer.done():
            self.answer.set_exception(error)


class Version(Struct, frozen=True):
    """The actor between two calls: its record and its state as it is stored. Both change together or not at all."""

    record: ActorRecord
    state: bytes
    deleted: bool = False


def next_timer(record: ActorRecord) -> int | None:
    """When the first of an actor's timers is to be run, or tried again, in milliseconds."""
    if not record.timers:
        return None
    return min(max(each.due_at, again_at(timer_place(name), record)) for name, each in record.timers.items())


def again_at(place: str, record: ActorRecord) -> int:
    """When a message or a timer that has failed is to be tried again, in milliseconds."""
    trouble = record.trouble.get(place)
    return 0 if trouble is None else trouble.again_at


class Finished(Struct, frozen=True):
    """A delivery that has run: the actor after it, what else is to be written for it, and who hears of it then."""

    delivery: Delivery
    outcome: Outcome
    writes: tuple[Write, ...]
    rings: tuple[str, ...]
    version: Version


class Resident(Entity):
    """One actor that this process has in memory."""

    __slots__ = (
        "actor",
        "calls",
        "committed",
        "committing",
        "finished",
        "gathers",
        "halting",
        "hot",
        "kind",
        "known",
        "later",
        "left_at",
        "looks",
        "mail",
        "passed_over",
        "promised",
        "redo",
        "replies",
        "running",
        "suspects",
        "version",
        "view",
        "waits_for",
        "writing",
    )

    def __init__(self, partition: str, model: Model, kind: Kind) -> None:
        super().__init__(partition, model)
        self.kind = kind
        self.actor: Instance | None = None
        self.version: Version | None = None
        self.committed: Version | None = None
        self.view: tuple[bytes, Instance] | None = None
        self.calls: deque[Delivery] = deque()
        self.mail: deque[Delivery] = deque()
        self.later: list[tuple[int, str, Delivery]] = []
        self.known: set[str] = set()
        self.finished: list[Finished] = []
        self.promised: dict[str, Item] = {}
        self.replies: dict[str, Reply] = {}
        self.running: Delivery | None = None
        self.waits_for: set[str] = set()
        self.committing: asyncio.Task[None] | None = None
        self.suspects: set[str] = set()
        self.halting = self.redo = self.writing = self.hot = self.gathers = False
        self.left_at = 0
        self.passed_over = 0
        self.looks = 0

    @property
    def key(self) -> str:
        return key_of(self.partition)

    @property
    def passing(self) -> bool:
        """Whether it is only there for a while."""
        return self.kind.passing(self.key)

    @property
    def place(self) -> tuple[str, str]:
        """Where its head is."""
        return self.partition, HEAD

    @property
    def loaded(self) -> bool:
        return self.version is not None

    @property
    def has_news(self) -> bool:
        return self.unread or bool(self.calls)

    @property
    def renewable(self) -> bool:
        return self.held and not self.writing  # a commit extends it too, and moves the epoch on

    @property
    def settled(self) -> bool:
        """Whether all that has run is durable."""
        return not self.finished and not self.writing

    def enqueue(self, delivery: Delivery) -> None:
        """Take in a call from this process. What has been rung for by now is looked at before it."""
        delivery.behind = self.looks + self.unread
        self.calls.append(delivery)
        self.wake()

    def withdraw(self, delivery: Delivery) -> None:
        """Take a call back that nobody waits for any more, unless it runs or has run."""
        with suppress(ValueError):
            self.calls.remove(delivery)

    def set_aside(self, due_at: int, delivery: Delivery) -> None:
        """Keep a message for later."""
        heappush(self.later, (due_at, delivery.place, delivery))

    def end_messages(self, now: int) -> list[str]:
        """Forget the messages that were sent and wait for their time, or for another attempt; answers their places."""
        assert self.version is not None
        trouble = self.version.record.trouble
        failing = [each for each in self.mail if each.place in trouble and trouble[each.place].failed]
        waiting = [*failing, *(each for _, _, each in self.later)]
        self.mail = deque(each for each in self.mail if each not in failing)
        self.later.clear()
        puts = (each.item for finished in self.finished for each in finished.writes if isinstance(each, Put))
        own = (each for each in puts if each.partition == self.partition and each.sort.startswith(INBOX_PREFIX))
        delayed = (each.sort for each in own if decode_call(each.body).not_before > now)
        return [*(each.place for each in waiting), *delayed]

    def finish(
        self, delivery: Delivery, outcome: Outcome, writes: tuple[Write, ...] = (), rings: Iterable[str] = ()
    ) -> None:
        """Leave behind what is to be committed for a delivery, beside ``version``."""
        assert self.version is not None
        self.finished.append(Finished(delivery, outcome, writes, tuple(rings), self.version))
        self.promised.update((each.item.partition, each.item) for each in writes if _puts_head(each))

    def kept(self, finished: Finished) -> None:
        """What was left behind is durable: what it puts is to be found in the store now."""
        for each in finished.writes:
            if _puts_head(each):
                self.promised.pop(each.item.partition, None)

    def suspect(self, now: int) -> None:
        """The last owner has died, perhaps of one of the messages and timers that are there to be run."""
        assert self.version is not None
        due = (name for name, each in self.version.record.timers.items() if each.due_at <= now)
        self.suspects = {*(each.place for each in self.mail), *map(timer_place, due)}

    # ── What comes next ─────────────────────────────────────────────────────────────────────────────────────────────

    def next(self, now: int) -> Delivery | None:
        """What is to run now: a timer that is due; else the message or call that was sent first, as far as clocks tell,
        so that a call finds applied what its caller has sent before (G6). Messages are passed over so often only.
        """
        if (timer := self._due_timer(now)) is not None:
            return timer
        while self.later and self.later[0][0] <= now:
            self.mail.append(heappop(self.later)[2])
        mail_waits = bool(self.mail) and self._again_at(self.mail[0].place) <= now
        if mail_waits and (
            not self.calls
            or self.mail[0].call.sent_at <= self.calls[0].call.sent_at
            or self.passed_over >= MOST_PASSED_OVER
        ):
            self.passed_over = 0
            return self.mail.popleft()
        self.passed_over += mail_waits
        if not self.calls or (self.unread and self.calls[0].behind > self.looks):
            return None
        return self.calls.popleft()

    def next_due(self) -> int | None:
        """The earliest time something is to be done, in milliseconds; a message that is to be tried again included."""
        assert self.version is not None
        times = [next_timer(self.version.record)]
        if self.later:
            times.append(self.later[0][0])
        if self.mail:
            times.append(self._again_at(self.mail[0].place))
        return min((each for each in times if each is not None), default=None)

    def _due_timer(self, now: int) -> Delivery | None:
        assert self.version is not None
        due = [
            (each.due_at, name)
            for name, each in self.version.record.timers.items()
            if each.due_at <= now and self._again_at(timer_place(name)) <= now
        ]
        if not due:
            return None
        tick, name = min(due)
        record = self.version.record.timers[name]
        ticks: tuple[int, ...] = (tick,)
        if record.schedule is not None:
            ticks, _ = ticks_to_run(record.schedule, tick - 1, now, record.missed, 1)
        call = timer_call(name, record, ticks[0] if ticks else tick)
        return Delivery(call, timer=name, tick=ticks[0] if ticks else None)

    def _again_at(self, place: str) -> int:
        assert self.version is not None
        return again_at(place, self.version.record)

    # ── Starting over ───────────────────────────────────────────────────────────────────────────────────────────────

    def reset(self) -> None:
        """Back to what is durable. Messages are read again; calls of this process begin anew, in their order, but for
        those that nobody waits for any more: the caller may have run again, and heard that its call was refused.
        """
        again = [each.delivery for each in self.finished]
        self.finished.clear()
        self.promised.clear()
        self.replies.clear()
        self.calls.extendleft(delivery for delivery in reversed(again) if _is_awaited(delivery))
        self.mail.clear()
        self.later.clear()
        self.known.clear()
        self.version = self.committed
        self.actor = None
        self.unread = True
        self.halting = self.redo = False

    def lose(self) -> None:
        super().lose()
        if self.running is not None and self.turn is not None:
            self.turn.cancel()

    def forget(self) -> None:
        super().forget()
        unread = self.unread
        if self.committing is not None:
            self.committing.cancel()
        waiting = [*(each.delivery for each in self.finished), *self.calls]
        if self.running is not None:
            waiting.append(self.running)
        self.committed = None
        self.reset()
        self.calls.clear()
        self.view = None
        self.unread = unread
        for delivery in waiting:
            delivery.tell(ELSEWHERE)

    def interrupt(self) -> None:
        self.wake()


def _is_awaited(delivery: Delivery) -> bool:
    return delivery.answer is not None and not delivery.answer.done()


def _puts_head(write: Write) -> TypeGuard[Put]:
    return isinstance(write, Put) and write.item.sort == HEAD
