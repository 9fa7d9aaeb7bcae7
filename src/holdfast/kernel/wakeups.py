"""Checks of an entity at another time: by this process, which stays, or by one that is called when it is time."""

from __future__ import annotations

import asyncio
import math
from heapq import heapify, heappop, heappush
from itertools import count
from typing import TYPE_CHECKING, Final, Protocol, TypeAlias

from holdfast.bounded import Bounded

if TYPE_CHECKING:
    from holdfast.kernel.wake import Checks
    from holdfast.ports import Invoker

Alarm: TypeAlias = "tuple[float, int, str, Checks, int]"
"""When it is due by the clock of the loop, a number by which those of one moment keep their order, the entity, what
checks it, and when it is due in milliseconds.
"""

FIRED_AT_ONCE: Final = 250
"""Each begins a turn, which computes for some 0.1 ms before it waits for the store."""

SAME: Final = 0.002
"""So far apart, in seconds, one moment may be that is computed twice from a clock of milliseconds; one that was set
meanwhile is further away."""

MOST_CALLED: Final = 10_000
"""Of how many entities it is remembered that a process was called for them."""


class Wakeups(Protocol):
    """What becomes of an entity that is to be checked at another time than now. Times are in milliseconds."""

    def check_at(self, host: Checks, partition: str, due_at: int) -> None:
        """It is to be checked then, or a little later, never earlier."""
        ...

    def held(self, host: Checks, partition: str, until: int) -> None:
        """Another process has its lease, until then unless it extends it."""
        ...

    def failed(self, host: Checks, partition: str, again_at: int, /) -> None:
        """A turn of it could not be finished, and may be tried again then."""
        ...

    def passed_on(self, partition: str) -> bool:
        """Whether another process was called for an entity because there is no room for it here."""
        ...

    @property
    def waiting(self) -> bool:
        """Whether something is to be checked here in a moment."""
        ...

    def cancel(self, partition: str) -> None:
        """It is being checked."""
        ...

    def cancel_all(self) -> None:
        """This process stops."""
        ...


class LocalAlarms:
    """In a process that stays: alarms on its loop for what is near; its sweep comes by in time for the rest.

    All of them share one timer of the loop. Of many that are due at one moment, ``FIRED_AT_ONCE`` fire in a turn of the
    loop, and the others in the turns that follow, so that it is not held up.
    """

    def __init__(self, sweep_seconds: float) -> None:
        self._longest_seconds = 2 * sweep_seconds
        self._numbers = count()
        self._alarms: dict[str, Alarm] = {}
        self._by_time: list[Alarm] = []
        """A heap. An alarm that is not among ``_alarms`` any more was cancelled."""
        self._timer: asyncio.Handle | None = None
        self._fires_at = math.inf
        """When the timer fires. uvloop makes of one that is due a handle which does not know its time."""

    def check_at(self, host: Checks, partition: str, due_at: int) -> None:
        delay_seconds = max(0, due_at - host.clock.now_ms()) / 1000
        if delay_seconds > self._longest_seconds:
            return
        when = asyncio.get_running_loop().time() + delay_seconds
        if (before := self._alarms.get(partition)) is not None and before[4] == due_at and abs(before[0] - when) < SAME:
            return  # a sweep has come by again
        alarm = (when, next(self._numbers), partition, host, due_at)
        self._alarms[partition] = alarm
        heappush(self._by_time, alarm)
        if len(self._by_time) > 2 * len(self._alarms) + FIRED_AT_ONCE:
            self._by_time = list(self._alarms.values())
            heapify(self._by_time)
        if alarm[0] < self._fires_at:
            self._set()

    def held(self, host: Checks, partition: str, until: int) -> None:
        self.check_at(host, partition, until + 1)  # at the very end of a lease it has not lapsed yet

    def failed(self, host: Checks, partition: str, again_at: int, /) -> None:
        self.check_at(host, partition, again_at)

    def passed_on(self, partition: str) -> bool:  # noqa: ARG002 - the signature of Wakeups
        return False

    @property
    def waiting(self) -> bool:
        return False  # there is no moment from which on it would be worth waiting for

    def cancel(self, partition: str) -> None:
        self._alarms.pop(partition, None)

    def cancel_all(self) -> None:
        self._alarms.clear()
        self._by_time.clear()
        self._set()

    def _set(self) -> None:
        """Set the timer to the next alarm."""
        if self._timer is not None:
            self._timer.cancel()
        self._timer, self._fires_at = None, math.inf
        if self._by_time:
            self._fires_at = self._by_time[0][0]
            self._timer = asyncio.get_running_loop().call_at(self._fires_at, self._fire)

    def _fire(self) -> None:
        now = max(self._fires_at, asyncio.get_running_loop().time())
        fired = 0
        try:
            while fired < FIRED_AT_ONCE and self._by_time and self._by_time[0][0] <= now:
                alarm = heappop(self._by_time)
                _, _, partition, host, _ = alarm
                if self._alarms.get(partition) is alarm:
                    del self._alarms[partition]
                    fired += 1
                    host.check(partition)
        finally:  # one that cannot be checked is no reason for the others to wait
            self._set()


class Invocations:
    """In a process that may be frozen or gone between two invocations: a process is called when it is time.

    ``failures`` are the entities whose turns could not be finished: the invocation for them reports it. An entity that
    another process owns is left to that one. It cannot release the entity before it has read what has come; and if it
    is dead, the sweep finds its lease.
    """

    def __init__(self, invoker: Invoker | None) -> None:
        self.failures: set[str] = set()
        self._invoker = invoker
        self._now: dict[str, asyncio.Handle] = {}
        self._called = Bounded[str, int](MOST_CALLED)

    @property
    def waiting(self) -> bool:
        return bool(self._now)

    def passed_on(self, partition: str) -> bool:
        if self._invoker is None:
            return False
        self.wake(partition, 0)
        return True

    def check_at(self, host: Checks, partition: str, due_at: int) -> None:
        if due_at > host.clock.now_ms():
            self._wake_once(partition, due_at)
        elif host.draining:
            self.wake(partition, due_at)
        else:
            self.cancel(partition)
            self._now[partition] = asyncio.get_running_loop().call_soon(host.check, partition)

    def held(self, host: Checks, partition: str, until: int) -> None:
        if until < host.clock.now_ms():  # it changed hands while we asked
            self.check_at(host, partition, until)

    def failed(self, _host: Checks, partition: str, _again_at: int, /) -> None:
        self.failures.add(partition)

    def _wake_once(self, partition: str, due_at: int) -> None:
        """An execution that is disturbed while it sleeps goes to sleep again until the same time."""
        if self._called.get(partition) == due_at:
            return
        self._called[partition] = due_at
        self.wake(partition, due_at)

    def called(self, partition: str) -> None:
        """A process was called for it. If that was too early, by another clock than ours, it is to be called again."""
        self._called.pop(partition, None)

    def wake(self, partition: str, due_at: int) -> None:
        """Have a process called then."""
        if self._invoker is not None:  # else the next sweep is
            self._invoker.wake_at(partition, due_at)

    def cancel(self, partition: str) -> None:
        if (soon := self._now.pop(partition, None)) is not None:
            soon.cancel()

    def cancel_all(self) -> None:
        for partition, soon in self._now.items():
            soon.cancel()
            self.wake(partition, 0)
        self._now.clear()
