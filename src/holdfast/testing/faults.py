"""Faults, when they happen, and how often they did.

A fault hits one call of a port. A *plan* decides which; it is asked once per call, so the same plan and the same run
give the same faults. Every fault is counted, and a test that was to suffer faults and did not must fail: a torture test
that never tortured proves nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from random import Random
from typing import Final, Protocol, get_args

from msgspec import Struct

# ── What can happen to a write ──────────────────────────────────────────────────────────────────────────────────────


class FailBefore(Struct, frozen=True):
    """The write is not applied, and its outcome is unknown to the sender."""


class LoseAnswer(Struct, frozen=True):
    """The write is applied, or refused, and its outcome is unknown to the sender."""


class Delay(Struct, frozen=True):
    """The write is applied after ``before_seconds`` and answered another ``after_seconds`` later.

    It is under way meanwhile: it arrives even if its sender has died or been stopped.
    """

    before_seconds: float = 0.0
    after_seconds: float = 0.0


class CrashBefore(Struct, frozen=True):
    """The process dies before the write leaves it."""


class CrashAfter(Struct, frozen=True):
    """The process dies as soon as the write is applied, before the answer arrives."""


class PauseBefore(Struct, frozen=True):
    """The process is stopped before the write leaves it. When it is resumed the write goes out: it is a zombie."""


class PauseAfter(Struct, frozen=True):
    """The process is stopped as soon as the write is applied, before the answer arrives."""


WriteFault = FailBefore | LoseAnswer | Delay | CrashBefore | CrashAfter | PauseBefore | PauseAfter

# ── What can happen to a read or a wake-up ──────────────────────────────────────────────────────────────────────────


class FailRead(Struct, frozen=True):
    """The store does not answer."""


class DelayRead(Struct, frozen=True):
    """The store answers late, with its content at the time of the request."""

    seconds: float


class TearPage(Struct, frozen=True):
    """A page is no snapshot: each of its items is read at its own moment within ``seconds``.

    ``seed`` decides which moment. It is drawn only where ``Home.pages_tear``.
    """

    seconds: float
    seed: int


ReadFault = FailRead | DelayRead | TearPage


class LoseRing(Struct, frozen=True):
    """It is lost."""


class DoubleRing(Struct, frozen=True):
    """It arrives twice, the second time ``seconds`` later."""

    seconds: float


class DelayRing(Struct, frozen=True):
    """It arrives ``seconds`` later."""

    seconds: float


class EarlyRing(Struct, frozen=True):
    """A wake-up for a time arrives at once. Only where wake-ups are messages: elsewhere none are for a time."""


RingFault = LoseRing | DoubleRing | DelayRing | EarlyRing

# ── What can happen to a process ────────────────────────────────────────────────────────────────────────────────────


class Kill(Struct, frozen=True):
    """It dies at any moment, for example in the middle of a step."""


class Stop(Struct, frozen=True):
    """It is stopped at any moment, and resumed later."""


class Drain(Struct, frozen=True):
    """It shuts down gracefully, and another one takes its place."""


class Outage(Struct, frozen=True):
    """Every call of its store fails for this time."""

    seconds: float


class WrongClock(Struct, frozen=True):
    """Its clock is this far ahead of the right time, or behind it."""

    offset_ms: int


ProcessFault = Kill | Stop | Drain | Outage | WrongClock

AnyFault = WriteFault | ReadFault | RingFault | ProcessFault
EVERY_FAULT: Final[tuple[type[AnyFault], ...]] = get_args(AnyFault)

# ── Plans ───────────────────────────────────────────────────────────────────────────────────────────────────────────


class FaultPlan(Protocol):
    """Decides the fault of each call; ``None`` means no fault."""

    def on_write(self, number: int) -> WriteFault | None:
        """The fault of the ``number``-th write of this process (1 is the first)."""
        ...

    def on_read(self) -> ReadFault | None:
        """The fault of the next read."""
        ...

    def on_ring(self) -> RingFault | None:
        """The fault of the next wake-up."""
        ...


class FaultsAt(FaultPlan):
    """Faults at given writes, and none elsewhere. An empty one is the plan of a world without faults."""

    def __init__(self, faults: Mapping[int, WriteFault] | None = None) -> None:
        self._faults = dict(faults or {})

    def on_write(self, number: int) -> WriteFault | None:
        return self._faults.get(number)

    def on_read(self) -> ReadFault | None:
        return None

    def on_ring(self) -> RingFault | None:
        return None


class Rates(Struct, frozen=True, kw_only=True):
    """The rate of each fault, as a share of the calls it can hit, and the longest delay."""

    fail_before: float = 0.0
    lose_answer: float = 0.0
    delay: float = 0.0
    crash: float = 0.0
    pause: float = 0.0
    fail_read: float = 0.0
    delay_read: float = 0.0
    lose_ring: float = 0.0
    double_ring: float = 0.0
    delay_ring: float = 0.0
    early_ring: float = 0.0
    tear_page: float = 0.0
    longest_delay_seconds: float = 1.0


class RandomFaults(FaultPlan):
    """Faults drawn from a generator. ``rates`` may be replaced while the plan is in use; without rates there are no
    faults.

    While ``down`` is set the store does not answer.
    """

    def __init__(self, random: Random, rates: Rates) -> None:
        self._random = random
        self.rates = rates
        self.down = False

    def on_write(self, number: int) -> WriteFault | None:  # noqa: ARG002 - the signature of FaultPlan
        if self.down:
            return FailBefore()
        rates, drawn = self.rates, self._random.random()
        for share, fault in (
            (rates.fail_before, FailBefore()),
            (rates.lose_answer, LoseAnswer()),
            (rates.crash / 2, CrashBefore()),
            (rates.crash / 2, CrashAfter()),
            (rates.pause / 2, PauseBefore()),
            (rates.pause / 2, PauseAfter()),
        ):
            if (drawn := drawn - share) < 0:
                return fault
        if drawn < rates.delay:
            return Delay(self._delay_seconds(), self._delay_seconds())
        return None

    def on_read(self) -> ReadFault | None:
        if self.down:
            return FailRead()
        rates, drawn = self.rates, self._random.random()
        if drawn < rates.fail_read:
            return FailRead()
        if (drawn := drawn - rates.fail_read) < rates.delay_read:
            return DelayRead(self._delay_seconds())
        if drawn - rates.delay_read < rates.tear_page:
            return TearPage(self._delay_seconds(), self._random.getrandbits(32))
        return None

    def on_ring(self) -> RingFault | None:
        rates, drawn = self.rates, self._random.random()
        if (drawn := drawn - rates.early_ring) < 0:
            return EarlyRing()
        if drawn < rates.lose_ring:
            return LoseRing()
        if drawn < rates.lose_ring + rates.double_ring:
            return DoubleRing(self._delay_seconds())
        if drawn < rates.lose_ring + rates.double_ring + rates.delay_ring:
            return DelayRing(self._delay_seconds())
        return None

    def _delay_seconds(self) -> float:
        # Mostly short: long delays everywhere would only make a slow world.
        return self.rates.longest_delay_seconds * float(self._random.random() ** 3)


NO_FAULTS: Final = FaultsAt()

# ── Counts ──────────────────────────────────────────────────────────────────────────────────────────────────────────


class FaultCounts:
    """How often each class of fault has happened."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()

    def note(self, fault: AnyFault) -> None:
        """A fault has happened."""
        self.counts[type(fault).__name__] += 1

    def add(self, other: FaultCounts) -> None:
        """Count those of another run too."""
        self.counts.update(other.counts)

    def require(self, minimum: int, *faults: type[AnyFault]) -> None:
        """Fail unless each of these classes has happened at least ``minimum`` times."""
        rare = {
            fault.__name__: self.counts[fault.__name__] for fault in faults if self.counts[fault.__name__] < minimum
        }
        if rare:
            told = ", ".join(f"{name} {count} times" for name, count in rare.items())
            raise AssertionError(f"each fault was to happen at least {minimum} times, but {told}: nothing was proven")

    def __str__(self) -> str:
        return ", ".join(f"{name} {count}" for name, count in sorted(self.counts.items())) or "none"
