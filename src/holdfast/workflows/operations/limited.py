"""Steps that need permits of limits: an attempt begins when it has all of them, and not otherwise.

While it waits it is no attempt: nothing is noted of it, and its clock does not run. A long wait is no reason to keep
the execution: it is released, with a time at which it is looked at again, and earlier if there are permits.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping
from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct

from holdfast.flow.limits import wanted_by
from holdfast.flow.permits import Hold, Lenders, lenders_of
from holdfast.replay.entity import JournaledEntity
from holdfast.replay.program import Arrival, Timed

if TYPE_CHECKING:
    from holdfast.replay.requests import Operation
    from holdfast.workflows.declared import DeclaredStep
    from holdfast.workflows.live import Live
    from holdfast.workflows.threads import Seat

PATIENCE_SECONDS: Final = 3.0
"""So long a step waits in memory, with its execution."""

LOOK_AGAIN_MS: Final = 60_000
"""So long an execution that was released is left alone, unless there are permits for it earlier."""

Attempt = Callable[[Hold, "Seat | None"], Coroutine[Any, Any, Arrival]]
"""Performs one attempt, which begins by these permits and gives them back, in a thread if there is a seat."""


class LimitedCall(Struct, frozen=True):
    """A call of a step that needs permits. ``failed`` records an error of the user's functions of its arguments."""

    step: DeclaredStep
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]
    operation: Operation
    live: Live
    failed: Callable[[Exception, int], Arrival]

    @property
    def has_permits(self) -> bool:
        """Whether its permits are kept for it."""
        return self.live.threads.holds.has(self.live.partition, self.operation.id)

    async def wait(self) -> Arrival | Timed:
        """Record nothing of an at-most-once step before it can begin. Once its permits are kept, request it again."""
        hold = self._hold()
        if not isinstance(hold, Hold):
            return hold
        if (later := await self._taken(hold)) is not None:
            return later
        self.live.threads.holds.keep(self.live.partition, self.operation.id, hold)
        return Timed(self.live.now_ms(), self.operation.id)

    async def perform(self, attempt: Attempt) -> Arrival | Timed:
        """Wait for the permits of an attempt, then for a thread if it needs one, and perform it. What waits for a
        permit has no thread.
        """
        hold = self._hold()
        if not isinstance(hold, Hold):
            return hold
        try:
            while True:
                if self.step.policy.at_most_once:  # it is noted that it begins: there is no way back
                    await hold.take()
                elif (later := await self._taken(hold)) is not None:
                    return later
                if self.step.is_async:
                    return await attempt(hold, None)
                seat = await self.live.threads.take_for(self.live.partition, self.operation.id)
                try:
                    if hold.is_valid:  # and has not lapsed while it waited for a thread
                        return await attempt(hold, seat)
                finally:
                    seat.leave()
        finally:
            if not hold.is_begun:
                hold.end()

    def _hold(self) -> Hold | Arrival:
        """The permits that are kept for it, or room for those it needs."""
        place = (self.live.partition, self.operation.id)
        if (kept := self.live.threads.holds.take(*place)) is not None:
            return kept
        what = f"step {self.step.name!r}"
        try:
            parameters = self.step.signature.parameters
            wanted = wanted_by(self.step.policy.limits, parameters, self.args, self.kwargs, what)
        except Exception as error:  # noqa: BLE001 - what the user's functions of the arguments raise
            return self.failed(error, self.live.now_ms())
        return _lenders(self.step).hold(wanted, place)

    async def _taken(self, hold: Hold) -> Timed | None:
        """Wait until it may begin. Else when it is tried again: it waits for long, or this process stops."""
        self.operation.began = 0
        if await hold.taken(PATIENCE_SECONDS, self.live.host):
            return None
        if self.live.host.draining:  # it is due at once, in another process: none is told of a permit here any more
            return Timed(self.live.now_ms(), self.operation.id)
        hold.park(self._rouse)
        return Timed(self.live.now_ms() + LOOK_AGAIN_MS, self.operation.id)

    def _rouse(self) -> None:
        """There is a permit: have the step requested again now, if it is still here, and not when it is due."""
        host, partition = self.live.host, self.live.partition
        entity = host.entities.get(partition)
        if isinstance(entity, JournaledEntity) and entity.work is not None:
            entity.work.add_timer(self.live.now_ms(), self.operation.id)
        host.check(partition)


def begin(hold: Hold, step: DeclaredStep, operation: Operation, live: Live) -> None:
    """The attempt begins: another one of the operation stands at the end of the line."""
    hold.begin()
    leave(step, operation, live)


def leave(step: DeclaredStep, operation: Operation, live: Live) -> None:
    """The operation stands in no line any more."""
    _lenders(step).leave((live.partition, operation.id))


def _lenders(step: DeclaredStep) -> Lenders:
    return lenders_of(step.policy.limits[0].limit.connect())
