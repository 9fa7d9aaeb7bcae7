"""How much a process asks of its store at once, so that it renews in time the leases of what it works on.

Requests to a store that takes few a second wait for each other, in the order in which they were made. A process that
asks for all that it could begin, and then renews, renews too late: others take over what it works on, and do it again.
So what begins more work waits here, and not in front of the renewals; and while they are late, little more begins.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
from collections import deque
from collections.abc import Generator
from typing import Final

AT_ONCE: Final = 64
"""Of how many claims the answers are waited for. What is claimed has its lease renewed until it is done: a process that
claims thousands before it works on the first, on a store that takes a thousand writes a second, does little else. As
many creations, and renewals, are under way where the store takes requests one by one.
"""

CREATIONS_WHILE_LATE: Final = 8
CLAIMS_WHILE_LATE: Final = 1
"""Not none: what is held may wait for what is not begun."""

LATE_SHARE: Final = 4
"""Renewals are late when they take longer than this share of a lease: a quarter."""


class Turnstile:
    """Lets a number in at once, in the order in which they came; and only a few while it is narrow."""

    __slots__ = ("_few", "_inside", "_most", "_waiting", "_wide")

    def __init__(self, wide: float, few: float) -> None:
        self._wide, self._few = wide, few
        self._most = wide
        self._inside = 0
        self._waiting = deque[asyncio.Future[None]]()

    def narrow(self) -> None:
        """Let few in from now on."""
        self._most = self._few

    def widen(self) -> None:
        """Let many in again."""
        self._most = self._wide
        self._let_in()

    async def __aenter__(self) -> None:
        if self._inside < self._most:
            self._inside += 1
            return
        place: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(place)
        try:
            await place
        except asyncio.CancelledError:
            if not place.cancelled():  # it had been let in just now
                self._leave()
            raise

    async def __aexit__(self, *_error: object) -> None:
        self._leave()

    def _leave(self) -> None:
        self._inside -= 1
        if self._waiting:
            self._let_in()

    def _let_in(self) -> None:
        while self._waiting and self._inside < self._most:
            place = self._waiting.popleft()
            if not place.done():
                self._inside += 1
                place.set_result(None)


class Pace:
    """What begins work in this process, and what renews the leases of what has begun.

    A claim is made inside ``claims``, one that callers of this process wait for inside ``calls``. An entity is created
    inside ``creations``, one lease is renewed inside ``renewals``. ``one_by_one``: the store takes requests one by one.
    One that takes in one transaction all that waits for it is only slowed down by a bound on that.
    """

    __slots__ = ("_late_seconds", "calls", "claims", "creations", "is_kept", "renewals")

    def __init__(self, lease_ms: int, *, one_by_one: bool) -> None:
        self._late_seconds = lease_ms / 1000 / LATE_SHARE
        many = AT_ONCE if one_by_one else math.inf
        self.calls = Turnstile(AT_ONCE, AT_ONCE)
        self.claims = Turnstile(AT_ONCE, CLAIMS_WHILE_LATE)
        self.creations = Turnstile(many, CREATIONS_WHILE_LATE if one_by_one else many)
        self.renewals = Turnstile(many, many)
        self.is_kept = True
        """Whether leases are renewed in time, so that more may begin."""

    @contextlib.contextmanager
    def renewing(self) -> Generator[None]:
        """All leases are renewed inside. They are late once this takes long, and until it does not."""
        loop = asyncio.get_running_loop()
        began = loop.time()
        alarm = loop.call_later(self._late_seconds, self._fall_behind)
        try:
            yield
        finally:
            alarm.cancel()
        if not self.is_kept and loop.time() - began < self._late_seconds:
            self.end()

    def end(self) -> None:
        """Nothing is late, or nothing is renewed any more: then what waits finds out that this process stops."""
        self.is_kept = True
        self.claims.widen()
        self.creations.widen()

    def _fall_behind(self) -> None:
        self.is_kept = False
        self.claims.narrow()
        self.creations.narrow()
