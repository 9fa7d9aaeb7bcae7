"""What waits to be run by an actor in memory, and which of it is next: timers, messages, calls of this process."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterable
from contextlib import suppress
from heapq import heappop, heappush
from typing import Final

from msgspec import Struct

from holdfast.actors.record import (
    DELETE_METHOD,
    TAKEN,
    ActorRecord,
    Call,
    again_at,
    decode_call,
    next_timer,
    queue_place,
    timer_call,
    timer_place,
)
from holdfast.coordination.schedule import ticks_to_run
from holdfast.items import Item

MOST_PASSED_OVER: Final = 100
"""How many calls may run before a message that was sent later, as far as clocks tell: theirs may be wrong."""


PLENTY: Final = 200
"""While this number of messages waits in memory, the inbox is not looked into: a look reads all that waits there."""

Answer = asyncio.Future["Outcome"]


class Replied(Struct, frozen=True):
    """The call was applied: ``data`` is the encoded result. Or the actor's code raised ``error``, and it was not."""

    data: bytes = b""
    error: Exception | None = None


class Elsewhere(Struct, frozen=True):
    """The call was not applied: the actor lives in another process. Send the call there."""


class Later(Struct, frozen=True):
    """The attempt failed, and nothing of it was kept. The queue that the message is from shall deliver it again at
    ``again_at`` (milliseconds).
    """

    again_at: int


class HeldUp(Struct, frozen=True):
    """The call was not applied, because one before it in its series was not."""


Outcome = Replied | Elsewhere | Later | HeldUp
ELSEWHERE: Final = Elsewhere()
HELD_UP: Final = HeldUp()


class Series(Struct, eq=False):
    """Calls that are applied in their order: none behind one that was not applied. They share commits."""

    stopped: bool = False


class Delivery(Struct, eq=False):
    """A call on its way through an actor. ``sort`` is its place in the inbox, ``timer`` the timer that made it and
    ``tick`` the time it is for, if it is to run at all; ``answer`` is the caller that waits for it in this process.
    ``taken``: the marks know it although it waits for its time. ``prepared``: that it begins to run is durable.
    ``behind``: the look into the inbox that it comes after. ``place`` identifies it among the durable messages and
    timers of its actor; it is empty for a call from memory. ``series`` is the one that it is part of.
    """

    call: Call
    answer: Answer | None = None
    sort: str | None = None
    timer: str | None = None
    tick: int | None = None
    taken: bool = False
    prepared: bool = False
    behind: int = 0
    place: str = ""
    series: Series | None = None

    def __post_init__(self) -> None:
        if self.timer is not None:
            self.place = timer_place(self.timer)
        elif self.sort is None and self.call.origin is not None:
            self.place = queue_place(self.call.origin)
        else:
            self.place = self.sort or ""

    @property
    def numbered(self) -> bool:
        """Whether the marks of its actor tell if it is a repeat."""
        return self.call.numbered and self.sort is not None and not self.taken

    @property
    def skips(self) -> bool:
        """Whether it is a timer's whose tick was missed, and is to be dropped."""
        return self.timer is not None and self.tick is None

    @property
    def is_awaited(self) -> bool:
        """Whether a caller in this process still waits for its outcome."""
        return self.answer is not None and not self.answer.done()

    @property
    def held_up(self) -> bool:
        """Whether one before it in its series was not applied, so that it is not to run."""
        return self.series is not None and self.series.stopped

    def hold_up_others(self) -> None:
        """It was not applied: none behind it in its series is to run."""
        if self.series is not None:
            self.series.stopped = True

    def resolve(self, outcome: Outcome) -> None:
        """Tell the caller that waits in this process."""
        if not isinstance(outcome, Replied) or outcome.error is not None:
            self.hold_up_others()
        if self.answer is not None and not self.answer.done():
            self.answer.set_result(outcome)

    def fail(self, error: Exception) -> None:
        """Tell the caller that waits in this process that something other than the call itself went wrong."""
        self.hold_up_others()
        if self.answer is not None and not self.answer.done():
            self.answer.set_exception(error)


class Queue:
    """The deliveries that wait: ``calls`` of this process, ``mail`` from the inbox, and what is to come later.

    ``known`` are the places of the messages that were taken in; ``looks`` counts the looks into the inbox. A look takes
    in the first ones of many: ``more`` may wait there, all of which come after them. Of one of the ``suspects`` the
    last owner may have died.
    """

    __slots__ = ("_later", "_passed_over", "calls", "known", "looks", "mail", "more", "suspects")

    def __init__(self) -> None:
        self.calls: deque[Delivery] = deque()
        self.mail: deque[Delivery] = deque()
        self.known: set[str] = set()
        self.suspects: set[str] = set()
        self.looks = 0
        self.more = False
        self._later: list[tuple[int, str, Delivery]] = []
        self._passed_over = 0

    # ── What comes in ───────────────────────────────────────────────────────────────────────────────────────────────

    def add_call(self, delivery: Delivery, *, unread: bool) -> None:
        """Take in a call from this process. What the actor was woken for by now is looked at first."""
        delivery.behind = self.looks + unread
        self.calls.append(delivery)

    def withdraw(self, delivery: Delivery) -> None:
        """Take a call back that is awaited no more, unless it runs or has run."""
        with suppress(ValueError):
            self.calls.remove(delivery)

    def add_message(self, message: Item, now: int) -> None:
        """Take in a message of the inbox, if it is new."""
        if message.sort in self.known:
            return
        self.known.add(message.sort)
        delivery = Delivery(decode_call(message.body), sort=message.sort, taken=message.sort.endswith(TAKEN))
        if delivery.call.not_before > now and not delivery.numbered:
            self.add_later(delivery)
        else:
            self.mail.append(delivery)

    def add_later(self, delivery: Delivery) -> None:
        """Keep a message until its time."""
        self.known.add(delivery.place)
        heappush(self._later, (delivery.call.not_before, delivery.place, delivery))

    def suspect(self, record: ActorRecord, now: int) -> None:
        """The last owner has died, perhaps of one of the messages and timers that are there to be run."""
        due = (name for name, each in record.timers.items() if each.due_at <= now)
        self.suspects = {*(each.place for each in self.mail), *map(timer_place, due)}

    def put_back(self, delivery: Delivery) -> None:
        """Put back a message that is to be tried again, before those that wait behind it."""
        self.mail.appendleft(delivery)

    # ── What comes next ─────────────────────────────────────────────────────────────────────────────────────────────

    @property
    def has_plenty(self) -> bool:
        """Whether there is enough to run without another look into the inbox."""
        return len(self.mail) >= PLENTY

    @property
    def runs_short(self) -> bool:
        """Whether the inbox is to be looked into because what was taken in from it does not last."""
        return self.more and (not self.has_plenty or self._is_behind_more)

    @property
    def _is_behind_more(self) -> bool:
        """Whether the first call was sent later than all messages that were taken in, and so perhaps than others."""
        return (
            self.more
            and bool(self.calls)
            and (not self.mail or self.mail[-1].call.sent_at <= self.calls[0].call.sent_at)
        )

    @property
    def waits(self) -> bool:
        """Whether there are messages that are not to wait for their time."""
        return self.more or bool(self.mail)

    @property
    def has_later(self) -> bool:
        """Whether there are messages that wait for their time."""
        return bool(self._later)

    def next(self, record: ActorRecord, now: int, *, unread: bool) -> Delivery | None:
        """What is to run now: a timer that is due; else the message or call that was sent first, as far as clocks tell,
        so that a call finds applied what its caller has sent before (G6). Messages are passed over a few times only.
        """
        if record.timers and (timer := _due_timer(record, now)) is not None:
            return timer
        while self._later and self._later[0][0] <= now:
            self.mail.append(heappop(self._later)[2])
        mail_waits = bool(self.mail) and again_at(self.mail[0].place, record) <= now
        if mail_waits and (
            not self.calls
            or self.mail[0].call.sent_at <= self.calls[0].call.sent_at
            or self._passed_over >= MOST_PASSED_OVER
        ):
            self._passed_over = 0
            return self.mail.popleft()
        if self.mail and not mail_waits and (ending := self._take_end()) is not None:
            return ending
        self._passed_over += mail_waits
        if not self.calls or (unread and self.calls[0].behind > self.looks) or self._is_behind_more:
            return None
        return self.calls.popleft()

    def _take_end(self) -> Delivery | None:
        """The message that ends the actor, if one waits behind another that is to be tried again: it ends that, too.
        One that is numbered keeps its turn, since the marks would take those before it for repeats.
        """
        ends = (each for each in self.mail if each.call.method == DELETE_METHOD and not each.numbered)
        if (end := next(ends, None)) is not None:
            self.mail.remove(end)
        return end

    def next_due(self, record: ActorRecord) -> int | None:
        """The earliest time something is to be done, in milliseconds; a message that is to be tried again included."""
        if not (record.timers or self._later or self.mail):
            return None
        times = [next_timer(record)]
        if self._later:
            times.append(self._later[0][0])
        if self.mail:
            times.append(again_at(self.mail[0].place, record))
        return min((each for each in times if each is not None), default=None)

    # ── What does not run ───────────────────────────────────────────────────────────────────────────────────────────

    def drop_delayed(self, record: ActorRecord) -> list[Delivery]:
        """Drop the messages that wait for their time, or for another attempt; answers them."""
        failing = [each for each in self.mail if (known := record.failures.get(each.place)) and known.failed]
        delayed = [*failing, *(each for _, _, each in self._later)]
        self.mail = deque(each for each in self.mail if each not in failing)
        self._later.clear()
        return delayed

    def refuse_calls(self, error: Exception) -> None:
        """Tell every caller of this process that waits."""
        for delivery in self.calls:
            delivery.fail(error)
        self.calls.clear()

    def send_away(self, others: Iterable[Delivery] = ()) -> None:
        """Send the callers of this process to where the actor lives now."""
        for delivery in (*self.calls, *others):
            delivery.resolve(ELSEWHERE)
        self.calls.clear()

    def start_over(self, again: Iterable[Delivery] = ()) -> None:
        """Forget the messages, which are read again. The calls of ``again`` run before those that wait, but for those
        that are awaited no more: the caller may have run again, and heard that its call was refused.
        """
        self.calls.extendleft(reversed([each for each in again if each.is_awaited]))
        self.mail.clear()
        self._later.clear()
        self.known.clear()
        self.more = False


def _due_timer(record: ActorRecord, now: int) -> Delivery | None:
    due = [
        (each.due_at, name)
        for name, each in record.timers.items()
        if each.due_at <= now and again_at(timer_place(name), record) <= now
    ]
    if not due:
        return None
    tick, name = min(due)
    timer = record.timers[name]
    ticks: tuple[int, ...] = (tick,)
    if timer.schedule is not None:
        ticks, _ = ticks_to_run(timer.schedule, tick - 1, now, timer.missed, 1)
    call = timer_call(name, timer, ticks[0] if ticks else tick)
    return Delivery(call, timer=name, tick=ticks[0] if ticks else None)
