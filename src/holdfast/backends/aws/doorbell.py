"""The doorbell: homes in one process wake each other, and a message of SQS invokes a function.

A process that runs all the time takes no messages from the queue, because polling is billed: it finds what was written
elsewhere at its next sweep.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from contextvars import Context
from typing import Any, Final

from holdfast.backends.aws.bellringer import Bellringer
from holdfast.clock import Clock
from holdfast.hints import Hint, News
from holdfast.ports import AHEAD_MS, WakeUp

SILENT_MS: Final = 60_000
"""How long no wake-up is sent after one that no function could ever have received."""

LEFT_TO_SWEEPS_MS: Final = AHEAD_MS + 15_000
"""A wake-up that is due later is not sent: a sweep sees the work in the index before then, although the index lags."""

Heard = Callable[[Hint], None]


class Bells:
    """The open homes of this process that wake each other, by owner name."""

    def __init__(self) -> None:
        self.listeners: dict[str, Heard] = {}
        self.closed: set[str] = set()


class LocalDoorbell:
    """Wakes the other homes that share the bells, in the loop's next tick."""

    def __init__(self, bells: Bells, owner: str) -> None:
        self._bells = bells
        self._owner = owner
        bells.listeners[owner] = _ignore

    def ring(self, hint: str | News) -> None:
        """See ``Doorbell.ring``."""
        for owner in self._bells.listeners:
            if owner != self._owner:
                asyncio.get_running_loop().call_soon(self._pass_on, owner, hint)

    def _pass_on(self, owner: str, hint: Hint) -> None:
        # Looked up only now: the peer may have closed, or begun to listen, since the wake-up.
        self._bells.listeners.get(owner, _ignore)(hint)

    def listen(self, heard: Heard) -> None:
        """See ``Doorbell.listen``."""
        self._bells.listeners[self._owner] = heard

    def alive(self, owner: str) -> bool:
        """See ``Doorbell.alive``: of an owner elsewhere nothing is known, so it counts as alive."""
        return owner not in self._bells.closed

    def peers(self) -> frozenset[str]:
        """See ``Doorbell.peers``."""
        return frozenset(self._bells.listeners) - {self._owner}

    async def close(self) -> None:
        """See ``Doorbell.close``."""
        self._bells.listeners.pop(self._owner, None)
        self._bells.closed.add(self._owner)


def _ignore(hint: Hint) -> None:
    """What a home does with wake-ups before it listens."""


class SqsDoorbell(LocalDoorbell):
    """Sends a message to a queue, which a function of Lambda receives. It is the home's ``Invoker`` too.

    The wake-ups of one tick of the loop leave together. If there is no such queue, or no right to it, wake-ups are
    dropped for a while and the sweep finds the work; ``ring_failed`` reports that.
    """

    def __init__(self, bells: Bells, owner: str, ringer: Bellringer, clock: Clock, tell: Callable[..., Any]) -> None:
        super().__init__(bells, owner)
        self._ringer = ringer
        self._clock = clock
        self._tell = tell
        self._waiting: set[WakeUp] = set()
        self._sending: set[asyncio.Task[Any]] = set()
        self._silent_until = 0

    def ring(self, hint: str | News) -> None:
        """See ``Doorbell.ring``. For news no function is called: each call is billed."""
        super().ring(hint)
        if isinstance(hint, str):
            self.wake_at(hint, 0)

    def wake_at(self, partition: str, due_at: int) -> None:
        """See ``Invoker.wake_at``."""
        if due_at - self._clock.now_ms() > LEFT_TO_SWEEPS_MS:
            return
        if not self._waiting:
            asyncio.get_running_loop().call_soon(self._leave)
        self._waiting.add(WakeUp(partition, due_at))

    def _leave(self) -> None:
        wake_ups, self._waiting = self._waiting, set()
        if self._clock.now_ms() >= self._silent_until:
            # An empty context: the variables of the calling task are not for this one.
            task = asyncio.get_running_loop().create_task(self._send(wake_ups), context=Context())
            self._sending.add(task)
            task.add_done_callback(self._sending.discard)

    async def call(self, wake_ups: Sequence[WakeUp]) -> Sequence[WakeUp]:
        """See ``Invoker.call``."""
        if self._clock.now_ms() < self._silent_until:
            return wake_ups
        return await self._send(wake_ups)

    async def _send(self, wake_ups: Iterable[WakeUp]) -> Sequence[WakeUp]:
        """Send wake-ups, and return those that were lost."""
        in_order = sorted(wake_ups, key=lambda each: (each.partition, each.due_at))
        every: list[WakeUp] = []
        for lost in await self._ringer.send(in_order, self._clock.now_ms()):
            if lost.hopeless:
                self._silent_until = self._clock.now_ms() + SILENT_MS
            self._tell("ring_failed", count=len(lost.wake_ups), error=str(lost))
            every += lost.wake_ups
        return every

    async def sent(self) -> None:
        """See ``Invoker.sent``."""
        while self._waiting or self._sending:
            if self._sending:
                await asyncio.wait(self._sending)
            else:
                await asyncio.sleep(0)

    async def close(self) -> None:
        """See ``Doorbell.close``."""
        await super().close()
        await self.sent()
        self._ringer.close()
