"""Connections to a server: how many there may be, and which one is closed to make room for a new one.

A connection costs memory and a file descriptor before its client is known. So a connection without a request under way
has a deadline, and the one that has been quiet longest makes room for a new one: silent clients keep no others out.
"""

from __future__ import annotations

from typing import Final, Protocol

from msgspec import Struct

from holdfast.errors import ConfigurationError

MOST_CONNECTIONS: Final = 1_000
MOST_CONNECTIONS_OF_ADDRESS: Final = 250

QUIET_SECONDS: Final = 10.0
"""How long a connection may have no request: before the first one, while a head arrives, and between two."""

READING_SECONDS: Final = 60.0
"""How much longer its client may take to read the rest of a response."""

SPARE_DESCRIPTORS: Final = 100
"""The file descriptors that are reserved for the process's own files and sockets."""


class ConnectionLimits(Struct, frozen=True, kw_only=True):
    """How many connections there may be at once, and how many of them from one address."""

    total: int = MOST_CONNECTIONS
    per_address: int = MOST_CONNECTIONS_OF_ADDRESS

    def within(self, descriptors: int) -> ConnectionLimits:
        """The limits for a process with these file descriptors. Raises ``ConfigurationError`` if too few are left."""
        total = min(self.total, descriptors - SPARE_DESCRIPTORS)
        if total < 1 or self.per_address < 1:
            raise ConfigurationError(
                f"a server needs at least one connection, and {SPARE_DESCRIPTORS} file descriptors besides "
                f"(this process has {descriptors}: see ulimit -n)"
            )
        return ConnectionLimits(total=total, per_address=min(total, self.per_address))


class Guest(Protocol):
    """A connection, as ``Crowd`` sees it."""

    address: str

    def close(self) -> None:
        """End the connection once the client has read all that was sent."""
        ...

    def abort(self) -> None:
        """End the connection now."""
        ...


class Crowd:
    """All connections of a server. A guest is busy while a request of it is under way, and quiet otherwise."""

    def __init__(self, limits: ConnectionLimits) -> None:
        self._limits = limits
        self._busy: set[Guest] = set()
        self._quiet: dict[Guest, float] = {}  # since when; the longest comes first
        self._of_address: dict[str, int] = {}

    def __len__(self) -> int:
        return len(self._busy) + len(self._quiet)

    def admit(self, guest: Guest, now: float) -> bool:
        """Count a new connection and return true, or return false if there is no room.

        A quiet connection is ended to make room: one of the same address, if that address has too many.
        """
        crowded = self._of_address.get(guest.address, 0) >= self._limits.per_address
        if crowded or len(self) >= self._limits.total:
            candidates = (each for each in self._quiet if not crowded or each.address == guest.address)
            longest = next(candidates, None)
            if longest is None:
                return False
            self.leaves(longest)
            longest.abort()
        self._of_address[guest.address] = self._of_address.get(guest.address, 0) + 1
        self._quiet[guest] = now
        return True

    def begins(self, guest: Guest) -> None:
        """A request of the connection is under way."""
        if self._quiet.pop(guest, None) is not None:
            self._busy.add(guest)

    def rests(self, guest: Guest, now: float) -> None:
        """No request of the connection is under way any more."""
        if guest in self._busy:
            self._busy.discard(guest)
            self._quiet[guest] = now

    def leaves(self, guest: Guest) -> None:
        """Count the connection no more: it has ended, or is about to."""
        if self._quiet.pop(guest, None) is None:
            if guest not in self._busy:
                return
            self._busy.discard(guest)
        left = self._of_address[guest.address] - 1
        if left:
            self._of_address[guest.address] = left
        else:
            del self._of_address[guest.address]

    def sweep(self, now: float) -> None:
        """End the connections that have been quiet for too long."""
        for guest, since in list(self._quiet.items()):
            if now - since < QUIET_SECONDS:
                return
            guest.close() if now - since < QUIET_SECONDS + READING_SECONDS else guest.abort()
