"""A lease while it is held: its fence, its renewal in the background, and the moment it is lost."""

from __future__ import annotations

import asyncio
from typing import Final

from holdfast.coordination.lease import is_leased, renewal
from holdfast.errors import HoldfastError, LeaseLost, Refused, StoreError
from holdfast.kernel.runtime import Runtime
from holdfast.patterns.acquiring import Acquisition, ReleaseOutcome, Won

RENEW_AFTER: Final = (0.25, 0.35)
"""The share of its length after which a lease is renewed: with jitter, and early enough for two more tries."""

TRY_AGAIN_AFTER: Final = 0.05
"""The share of its length after which a renewal without an answer is tried again."""


class HeldLease:
    """A lease that is yours until the block ends, or until it is lost: from then on ``check`` raises.

    ``fence`` grows with every change of owner, without end. Hand it to whatever the lease guards, and let that refuse
    every fence lower than the highest it has seen: then an owner that was stopped for an hour does no harm (G9).
    ``permit`` is the number of a semaphore's permit, from 0; each has its own fences.
    """

    def __init__(self, name: str, permit: int, acquisition: Acquisition, won: Won) -> None:
        self.name = name
        self.permit = permit
        self.fence = won.item.epoch
        self._acquisition = acquisition
        self._won = won
        self._loop = asyncio.get_running_loop()
        self._until_ms = won.item.lease_until or 0
        self._until = won.asked_at + acquisition.ttl_ms / 1000
        self._lost: str | None = None
        self._told = asyncio.Event()
        self._keeper: asyncio.Task[None] | None = self._loop.create_task(self._keep())

    def __repr__(self) -> str:
        return f"<HeldLease {self.name!r} fence {self.fence}{'' if self.is_held else ', not held'}>"

    # ── Used by its holder ──────────────────────────────────────────────────────────────────────────────────────────

    def check(self) -> int:
        """The fence, if the lease is still ours as far as we know. Raises ``LeaseLost``. Works from any thread."""
        if self._lost is None and self._has_lapsed():
            self._lost = "it lapsed before it was renewed"
        if self._lost is not None:
            raise LeaseLost(
                f"lease {self.name!r} (fence {self.fence}) is lost: {self._lost}. Another owner may hold it; "
                "do nothing more under it"
            )
        if self._keeper is None:
            raise LeaseLost(f"lease {self.name!r} (fence {self.fence}) was released; its block has ended")
        return self.fence

    @property
    def is_held(self) -> bool:
        """Whether it is still ours as far as we know."""
        return self._lost is None and self._keeper is not None and not self._has_lapsed()

    async def lost(self) -> None:
        """Wait until it is lost."""
        await self._told.wait()

    def is_of(self, runtime: Runtime, partition: str) -> bool:
        """Whether it is a lease of this partition, in this app."""
        return self._acquisition.runtime is runtime and self._acquisition.partition == partition

    # ── Renewed, and released ───────────────────────────────────────────────────────────────────────────────────────

    def _has_lapsed(self) -> bool:
        # Two clocks: one that was set back, or stood still while the machine slept, shows in the other.
        return self._loop.time() >= self._until or self._acquisition.runtime.clock.now_ms() >= self._until_ms

    async def _keep(self) -> None:
        ttl_seconds, share = self._acquisition.ttl_ms / 1000, self._acquisition.random.uniform(*RENEW_AFTER)
        while self._lost is None:
            await asyncio.sleep(min(share * ttl_seconds, max(0.0, self._until - self._loop.time())))
            if self._has_lapsed():
                self._lose("it lapsed before it was renewed")
                return
            share = self._acquisition.random.uniform(*RENEW_AFTER) if await self._renew() else TRY_AGAIN_AFTER
        if not self._told.is_set():  # `check` noticed it first; it may run in any thread, and reports nothing
            self._lose(self._lost)

    async def _renew(self) -> bool:
        """Renew it by its whole length; false if the store's answer is unknown."""
        acquisition, epoch = self._acquisition, self.fence
        asked_at, until_ms = self._loop.time(), acquisition.runtime.clock.now_ms() + acquisition.ttl_ms
        write = renewal(acquisition.partition, acquisition.owner, epoch, until_ms, sort=self._won.item.sort)
        try:
            async with asyncio.timeout_at(self._until):
                await acquisition.runtime.home.store.write(write)
        except Refused as refused:
            if not is_leased(refused.item, acquisition.owner, epoch):
                self._lose("another owner took it over")
                return False
            # It lasts at least as long already: a renewal whose answer was lost, or a clock that was set back.
        except (StoreError, TimeoutError):
            return False
        self._until, self._until_ms = asked_at + acquisition.ttl_ms / 1000, max(until_ms, self._until_ms)
        return True

    def _lose(self, why: str) -> None:
        self._lost = self._lost or why
        self._told.set()
        self._acquisition.runtime.emit("lease_lost", partition=self._acquisition.partition, fence=self.fence)

    async def leave(self) -> HoldfastError | None:
        """Stop renewing, and release it: one write. Returns the error if it was lost meanwhile."""
        late = self._has_lapsed()  # as it stands when the block ends: the time of the release does not count
        keeper, self._keeper = self._keeper, None
        if keeper is not None:
            keeper.cancel()
            await asyncio.gather(keeper, return_exceptions=True)
        outcome = await self._acquisition.release(self._won, self._until)
        if self._lost is None and outcome is ReleaseOutcome.TAKEN_OVER:
            self._lose("another owner took it over")
        elif self._lost is None and outcome is ReleaseOutcome.UNKNOWN and late:
            self._lose("it lapsed before it was renewed")
        if self._lost is None:
            return None
        return LeaseLost(
            f"lease {self.name!r} (fence {self.fence}) was lost before its block ended: {self._lost}. The block ran "
            "to its end; another owner may have worked at the same time"
        )
