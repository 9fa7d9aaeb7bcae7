"""The state patterns of an app: each method hands out one concept of the coordination layer, bound to the open home."""

from __future__ import annotations

import asyncio
from functools import partial
from weakref import WeakValueDictionary

from holdfast.duration import Duration
from holdfast.kernel.watch import Rings
from holdfast.opened import Opened
from holdfast.patterns.blobs import BlobShelf
from holdfast.patterns.leader import Leader
from holdfast.patterns.lease import DEFAULT_TTL, Lease, Semaphore, WithLease, with_lease


class Patterns:
    """What an app offers besides workflows, actors and messages. Nothing here reads or writes before it is used.

    ``blobs`` are bytes of the user's own: ``app.blobs.put``, ``app.blobs.read``.
    """

    def __init__(self) -> None:
        self.blobs = BlobShelf(self.opened)

    def __init__(self) -> None:
        self.turnstiles: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    def opened(self) -> Opened:
        """The open app, as the patterns see it. Raises ``ConfigurationError`` if it is not open."""
        raise NotImplementedError

    @property
    def rings(self) -> Rings:
        """Who in this process waits for a sign that an entity may have moved. Raises as ``opened`` does."""
        raise NotImplementedError

    @property
    def loop(self) -> asyncio.AbstractEventLoop:
        """The event loop on which the app is open. Raises as ``opened`` does."""
        raise NotImplementedError

    # ── Leases ──────────────────────────────────────────────────────────────────────────────────────────────────────

    def lease(self, name: str, *, ttl: Duration = DEFAULT_TTL, wait: Duration | None = None) -> Lease:
        """A block that one at a time is in: ``async with app.lease("nightly-report") as held: ...``.

        Entering and leaving are one write each. The lease is renewed while the block runs, and free ``ttl`` after its
        process died, at once where the home can tell. Entering waits ``wait`` for others (``None``: as long as it
        takes, 0: not at all), then raises ``WaitTimeout``. ``held.fence`` is for whatever the block changes (G9);
        ``held.check()`` raises ``LeaseLost`` once the lease is lost, and so does leaving a block that did not fail.
        """
        return Lease(self, name, ttl, wait)

    def semaphore(
        self, name: str, permits: int, *, ttl: Duration = DEFAULT_TTL, wait: Duration | None = None
    ) -> Semaphore:
        """A block that at most ``permits`` are in at once; otherwise as ``lease``."""
        return Semaphore(self, name, permits, ttl, wait)

    def with_lease(self, name: str, *, ttl: Duration = DEFAULT_TTL, wait: Duration | None = None) -> WithLease:
        """Hold a lease during each call of the function: ``async def``, or ``def`` that is called in a thread."""
        return with_lease(partial(self.lease, name, ttl=ttl, wait=wait))

    def leader(self, name: str, *, ttl: Duration = DEFAULT_TTL) -> Leader:
        """A job for one process at a time: ``await app.leader("billing").run(work)``."""
        return Leader(self, name, ttl)
