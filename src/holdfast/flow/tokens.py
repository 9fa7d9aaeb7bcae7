"""The tokens of a rate that a process has and has not used."""

from __future__ import annotations

import asyncio
from bisect import insort
from collections.abc import Iterable
from operator import attrgetter
from typing import TYPE_CHECKING

from holdfast.flow.line import P, Waiting, fitting, served

if TYPE_CHECKING:
    from holdfast.clock import Clock
    from holdfast.flow.borrowing import Moment


class Tokens:
    """Those of one key of a limit. Each is used once, and not when it is late."""

    __slots__ = ("_clock", "_there", "late")

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._there: list[Moment] = []
        self.late = 0
        """How many were not used in time."""

    def add(self, tokens: Iterable[Moment]) -> None:
        """These have been given to this process."""
        self._there.extend(tokens)

    def take(self, weight: int) -> Moment | None:
        """One that is enough for a call and may be used now."""
        self.drop_late()
        for token in self._there:
            if token.weight >= weight and self.is_open(token):
                self._there.remove(token)
                return token
        return None

    def take_any(self, weight: int) -> Moment | None:
        """One that is enough for a call, though it may be used only later."""
        if (token := fitting(self._there, weight)) is not None:
            self._there.remove(token)
        return token

    def put_back(self, tokens: Iterable[Moment]) -> None:
        """These were taken and not used."""
        for token in tokens:
            insort(self._there, token, key=attrgetter("closes"))

    def is_open(self, token: Moment) -> bool:
        """Whether a token may be used now."""
        return token.opens <= asyncio.get_running_loop().time() and not self.is_late(token)

    def is_late(self, token: Moment) -> bool:
        """Whether a token may not be used any more."""
        late = asyncio.get_running_loop().time() > token.closes
        return late or self._clock.now_ms() * 1000 > token.until

    def drop_late(self) -> None:
        """Forget those that may not be used any more."""
        there = [token for token in self._there if not self.is_late(token)]
        self.late += len(self._there) - len(there)
        self._there = there

    def served(self, line: Iterable[Waiting[P]]) -> list[Waiting[P]]:
        """Those of a line for whom there are tokens."""
        self.drop_late()
        return served(line, self._there)

    def opening(self) -> list[float]:
        """When those may be used that may not be used yet, in the loop's time."""
        now = asyncio.get_running_loop().time()
        return [token.opens for token in self._there if token.opens > now]
