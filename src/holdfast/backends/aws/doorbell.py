"""A doorbell within one process: the homes that share ``Bells`` hear each other, and nobody else does.

Other processes find what was written when they next sweep. Nothing is lost by it, since state is truth; it comes later.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

Heard = Callable[[str | None], None]


class Bells:
    """The open homes of this process that hear each other, by owner name."""

    def __init__(self) -> None:
        self.listeners: dict[str, Heard] = {}
        self.closed: set[str] = set()


class LocalDoorbell:
    """Rings the other homes that share the bells, in the loop's next tick."""

    def __init__(self, bells: Bells, owner: str) -> None:
        self._bells = bells
        self._owner = owner
        bells.listeners[owner] = _ignore

    def ring(self, partition: str) -> None:
        """See ``Doorbell.ring``."""
        for owner in self._bells.listeners:
            if owner != self._owner:
                asyncio.get_running_loop().call_soon(self._pass_on, owner, partition)

    def _pass_on(self, owner: str, partition: str) -> None:
        # Looked up only now: the peer may have closed, or begun to listen, since the ring.
        self._bells.listeners.get(owner, _ignore)(partition)

    def listen(self, heard: Heard) -> None:
        """See ``Doorbell.listen``."""
        self._bells.listeners[self._owner] = heard

    def alive(self, owner: str) -> bool:
        """See ``Doorbell.alive``: of an owner elsewhere nothing is known, so he counts as alive."""
        return owner not in self._bells.closed

    def peers(self) -> frozenset[str]:
        """See ``Doorbell.peers``."""
        return frozenset(self._bells.listeners) - {self._owner}

    async def close(self) -> None:
        """See ``Doorbell.close``."""
        self._bells.listeners.pop(self._owner, None)
        self._bells.closed.add(self._owner)


def _ignore(partition: str | None) -> None:
    """What a home does with rings before it listens."""
