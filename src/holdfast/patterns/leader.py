"""Leader election: one of several processes does a job. When it dies or is cut off, another one takes over."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import AsyncExitStack
from typing import Any, TypeVar

from holdfast.containment import contained
from holdfast.duration import Duration
from holdfast.errors import LeaseLost, StoreUnavailable
from holdfast.kernel.runtime import Connect
from holdfast.patterns.held import HeldLease
from holdfast.patterns.lease import Lease

T = TypeVar("T")


class _Seat(Lease):
    kind = "leader"


class Leader:
    """A role that one process at a time holds: ``await app.leader("billing").run(work)``."""

    def __init__(self, connect: Connect, name: str, ttl: Duration) -> None:
        self._make: Callable[[], Lease] = lambda: _Seat(connect, name, ttl, None)
        self._make()  # a wrong declaration raises where it is written

    async def run(self, work: Callable[[HeldLease], Coroutine[Any, Any, T]]) -> T:
        """Wait to be leader, then run ``work(held)``; return its result, or raise its error, and let another process
        lead.

        When the lease is lost ``work`` is cancelled, and starts again when this process is leader again. It must not
        swallow the cancellation: until it has ended this process does not campaign, though another may lead already.
        Hand ``held.fence`` to whatever must refuse a former leader (G9).
        """
        while True:
            try:
                async with AsyncExitStack() as seat:
                    try:
                        held = await seat.enter_async_context(self._make())
                    except StoreUnavailable:
                        continue  # a candidate has time: it waits until an outage is over
                    return await _lead(held, work)
            except _Deposed:
                continue


class _Deposed(LeaseLost):
    """The lease was lost while the work ran, and the work has been cancelled."""


async def _lead(held: HeldLease, work: Callable[[HeldLease], Coroutine[Any, Any, T]]) -> T:
    working, losing = asyncio.ensure_future(contained(work(held))), asyncio.ensure_future(held.lost())
    try:
        await asyncio.wait((working, losing), return_when=asyncio.FIRST_COMPLETED)
        if working.done():
            return working.result()
        raise _Deposed(f"lease {held.name!r} (fence {held.fence}) was lost")
    finally:
        losing.cancel()
        working.cancel()
        await asyncio.gather(working, losing, return_exceptions=True)
