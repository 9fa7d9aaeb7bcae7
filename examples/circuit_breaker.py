"""A circuit breaker that all processes share: when a service fails nobody hammers it, and one call at a time tries.

Shows timers. ``closed``: calls go through; too many failures in a row open it. ``open``: calls are refused; a durable
timer makes it half-open. ``half-open``: one call, the probe, goes through, and its outcome closes or opens. A second
timer counts a probe as failed whose caller died.

The guarded call runs in the caller's process. Were it made inside the actor, its failure would roll back the very count
of failures, and all callers would queue behind it.

    python examples/circuit_breaker.py
"""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import datetime
from typing import ClassVar, Literal, TypeVar

import holdfast as hf

T = TypeVar("T")
Phase = Literal["closed", "open", "half-open"]

app = hf.App("breaker")


@dataclass(frozen=True)
class Admission:
    """Whether to call, and, if not, when to ask again. The outcome is reported with ``era``."""

    allowed: bool
    era: int = 0
    retry_at: datetime | None = None


class Breaker(hf.Actor, app=app):
    """One per service. For other limits, inherit and set them."""

    failures_allowed: ClassVar[int] = 2
    cool_down: ClassVar[str] = "1s"
    probe_limit: ClassVar[str] = "10s"

    phase: Phase = "closed"
    failures: int = 0
    probing: bool = False
    era: int = 0

    async def admit(self) -> Admission:
        """Ask before a call."""
        if self.phase == "open":
            return Admission(allowed=False, retry_at=self.half_open.due_at)
        if self.phase == "half-open":
            if self.probing:
                return Admission(allowed=False, retry_at=self.probe_lost.due_at)
            self.probing = True
            self.probe_lost.after(self.probe_limit)
        return Admission(allowed=True, era=self.era)

    async def report(self, era: int, *, worked: bool) -> None:
        """Tell how a call ended. One that was admitted in an earlier era says nothing about this one."""
        if era != self.era:
            return
        if worked:
            self.failures = 0
            if self.phase == "half-open":
                self._enter("closed")
            return
        self.failures += 1
        if self.phase == "half-open" or self.failures > self.failures_allowed:
            self._open()

    @hf.timer
    async def half_open(self) -> None:
        """The service has had its rest."""
        self._enter("half-open")

    @hf.timer
    async def probe_lost(self) -> None:
        """Nobody has heard of the probe."""
        self._open()

    @hf.read
    async def current_phase(self) -> Phase:
        return self.phase

    def _open(self) -> None:
        self._enter("open")
        self.half_open.after(self.cool_down)

    def _enter(self, phase: Phase) -> None:
        self.phase, self.failures, self.probing = phase, 0, False
        self.era += 1
        self.probe_lost.cancel()


class CircuitOpen(Exception):
    """The call was not made."""


async def guarded(service: str, call: Callable[[], Awaitable[T]]) -> T:
    """Make the call if its breaker lets it through, and report how it went. Raises ``CircuitOpen`` if not."""
    breaker = Breaker.at(service)
    admission = await breaker.admit()
    if not admission.allowed:
        raise CircuitOpen(f"{service} rests; ask again at {admission.retry_at}")
    try:
        answer = await call()
    except Exception:
        await breaker.report(admission.era, worked=False)
        raise
    await breaker.report(admission.era, worked=True)
    return answer


# ── See it work ─────────────────────────────────────────────────────────────────────────────────────────────────────


class Bank:
    """A service that is down at first."""

    up = False
    calls = 0

    async def balance(self) -> int:
        self.calls += 1
        await asyncio.sleep(0.01)
        if not self.up:
            raise ConnectionError("the bank is down")
        return 100


async def expect(bank: Bank, callers: int, reached: int, phase: Phase) -> None:
    """So many callers at once, of whom so many reach the bank."""
    before = bank.calls
    calls = [guarded("bank", bank.balance) for _ in range(callers)]
    refused = sum(isinstance(each, CircuitOpen) for each in await asyncio.gather(*calls, return_exceptions=True))
    found = await Breaker.at("bank").current_phase()
    print(f"{callers} callers: {bank.calls - before} reached the bank, {refused} were refused; it is {found}")
    assert (bank.calls - before, refused, found) == (reached, callers - reached, phase), f"expected {reached}, {phase}"


async def story() -> None:
    bank = Bank()
    await expect(bank, callers=3, reached=3, phase="open")
    await expect(bank, callers=10, reached=0, phase="open")
    for up in (False, True):
        while await Breaker.at("bank").current_phase() != "half-open":
            await asyncio.sleep(0.02)
        print(f"half-open after a rest, and the bank is {'up' if up else 'still down'}")
        bank.up = up
        await expect(bank, callers=10, reached=1, phase="closed" if up else "open")
    await expect(bank, callers=10, reached=10, phase="closed")


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        app.home_url = f"sqlite:///{folder}/breaker.db"
        app.run(story())


if __name__ == "__main__":
    main()
