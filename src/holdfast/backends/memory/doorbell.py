"""The reference model of the ``Doorbell`` port."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from holdfast.backends.memory.data import MemoryData
from holdfast.hints import Hint, News


class MemoryDoorbell:
    """Wakes the other homes that share the data, in the loop's next tick."""

    def __init__(self, data: MemoryData, owner: str) -> None:
        assert owner not in data.listeners, f"owner {owner!r} is already open"
        self._data = data
        self._owner = owner
        data.listeners[owner] = _ignore

    def ring(self, hint: str | News) -> None:
        """See ``Doorbell.ring``."""
        for owner in self._data.listeners:
            if owner != self._owner:
                asyncio.get_running_loop().call_soon(self._pass_on, owner, hint)

    def _pass_on(self, owner: str, hint: Hint) -> None:
        # Looked up only now: the peer may have closed, or begun to listen, since the wake-up.
        self._data.listeners.get(owner, _ignore)(hint)

    def listen(self, heard: Callable[[Hint], None]) -> None:
        """See ``Doorbell.listen``."""
        self._data.listeners[self._owner] = heard

    def alive(self, owner: str) -> bool:
        """See ``Doorbell.alive``: whether that home is open."""
        return owner in self._data.listeners

    def peers(self) -> frozenset[str]:
        """See ``Doorbell.peers``."""
        return frozenset(self._data.listeners) - {self._owner}

    async def close(self) -> None:
        """See ``Doorbell.close``."""
        self._data.listeners.pop(self._owner, None)


def _ignore(hint: Hint) -> None:
    """What a home does with wake-ups before it listens."""
