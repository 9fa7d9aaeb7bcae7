"""An open app, as everything in it sees it: its home, its clock, what it declares, and its worker if it has one."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, runtime_checkable

from msgspec import Struct

if TYPE_CHECKING:
    from holdfast.clock import Clock
    from holdfast.coordination.inbox import Sender
    from holdfast.kernel.host import Host
    from holdfast.kernel.limits import Limits
    from holdfast.kernel.listeners import WakeListeners
    from holdfast.kernel.presence import Presence
    from holdfast.ports import Home
    from holdfast.registrations import Registrations
    from holdfast.shared import Shared
    from holdfast.telemetry import Telemetry

T = TypeVar("T")
F = TypeVar("F", bound=Callable[..., Any])


class Declares(Protocol):
    """An app, open or not, as the functions that declare something on it see it."""

    @property
    def name(self) -> str: ...

    @property
    def registry(self) -> Registrations: ...

    @property
    def clock(self) -> Clock: ...

    @property
    def limit_bytes(self) -> int: ...

    def runtime(self) -> Runtime:
        """The open app; raises as ``Connect``."""
        ...

    def inject(self, function: F) -> F:
        """The function without the parameters that the app gives it."""
        ...


Connect = Callable[[], "Runtime"]
"""Answers the open app. Raises ``ConfigurationError`` if it is not open, ``IOOutsideStep`` inside a workflow body."""


class Hosting:
    """The host that works for an open app in this process; ``None`` while the process is only a client."""

    __slots__ = ("host",)

    def __init__(self) -> None:
        self.host: Host | None = None


@runtime_checkable
class Closeable(Protocol):
    """Something that must be closed before the home is."""

    async def close(self) -> None:
        """Close it."""
        ...


@runtime_checkable
class Lent(Protocol):
    """Something that others wait for while this process has it."""

    async def give_back(self) -> None:
        """Give it back: this process is frozen next, and may never thaw."""
        ...


class Kept:
    """What lives as long as the app is open: made when it is first asked for, closed with the app."""

    __slots__ = ("_by_key",)

    def __init__(self) -> None:
        self._by_key: dict[object, Any] = {}

    def get(self, key: object, make: Callable[[], T]) -> T:
        """What ``make`` answered when ``key`` was first asked for."""
        found: T | None = self._by_key.get(key)
        if found is None:
            found = self._by_key[key] = make()
        return found

    async def give_back(self) -> None:
        """Hold nothing that others wait for."""
        for kept in list(self._by_key.values()):
            if isinstance(kept, Lent):
                await kept.give_back()

    async def close(self) -> None:
        """Close what can be closed, the newest first."""
        while self._by_key:
            _, kept = self._by_key.popitem()
            if isinstance(kept, Closeable):
                await kept.close()


class Runtime(Struct, frozen=True, eq=False, kw_only=True):
    """An open app.

    ``limits`` are those of a worker that names none of its own; ``limit_bytes`` is the largest encoded value that one
    call may store. ``shared`` is what its processes share besides their home, ``rings`` are those of this process who
    wait for news of an entity, and ``sender`` orders what this process sends.
    """

    home: Home
    clock: Clock
    limits: Limits
    limit_bytes: int
    telemetry: Telemetry
    registry: Registrations
    shared: Shared
    loop: asyncio.AbstractEventLoop
    sender: Sender
    presence: Presence
    wake_listeners: WakeListeners
    hosting: Hosting
    kept: Kept

    @property
    def host(self) -> Host | None:
        """The host that works in this process; ``None`` while the process is only a client."""
        return self.hosting.host

    def emit(self, event: str, **fields: Any) -> None:
        """Count an event of telemetry."""
        self.telemetry.emit(event, **fields)
