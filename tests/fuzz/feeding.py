"""Feeds a target, and looks at what it costs: no input may take over a second, or 256 MB."""

from __future__ import annotations

import tempfile
import time
import traceback
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, Phase, Verbosity, given, seed, settings
from tests.fuzz.targets import TARGETS, Target

LONGEST_SECONDS = 1.0
"""Of the processor's time: what others do on the machine is no fault of an input."""

MOST_BYTES = 256 * 2**20

STATUS, PEAK = Path("/proc/self/status"), Path("/proc/self/clear_refs")

PORTION = 2_000
"""So many inputs come from one seed."""


@dataclass(frozen=True)
class Fed:
    """What came of it."""

    name: str
    inputs: int
    longest_seconds: float
    most_bytes: int


class TooExpensiveError(AssertionError):
    """An input has cost too much."""


def feed(target: Target, inputs: int, first_seed: int = 0) -> Fed:
    """Feed so many inputs. Raises what the target raises, with the input that it shrinks to."""
    fed, longest_seconds, most_bytes, memory = 0, 0.0, 0, Memory()
    with tempfile.TemporaryDirectory() as folder, target.open(Path(folder)) as take:

        def one(given_input: Any) -> None:
            nonlocal fed, longest_seconds, most_bytes
            before_bytes = memory.forget()
            took = _seconds_of(take, given_input)
            if took > LONGEST_SECONDS:  # once may be Python's collector, which looks through all that Hypothesis keeps
                took = _seconds_of(take, given_input)
            grown_bytes = memory.peak_bytes() - before_bytes
            fed, longest_seconds, most_bytes = fed + 1, max(longest_seconds, took), max(most_bytes, grown_bytes)
            if took > LONGEST_SECONDS:
                raise TooExpensiveError(f"it took {took:.1f} s")
            if grown_bytes > MOST_BYTES:
                raise TooExpensiveError(f"memory grew by {grown_bytes / 2**20:.0f} MB")

        portion = 0
        while fed < inputs:
            asked = min(PORTION, inputs - fed)
            chosen = settings(
                max_examples=asked,
                deadline=None,
                database=None,
                derandomize=False,
                suppress_health_check=list(HealthCheck),
                phases=[Phase.generate, Phase.shrink],
                verbosity=Verbosity.quiet if asked == PORTION else Verbosity.normal,
            )
            seed(first_seed + portion)(chosen(given(target.inputs)(one)))()
            portion += 1
    return Fed(target.name, fed, longest_seconds, most_bytes)


def _seconds_of(take: Callable[[Any], object], given_input: Any) -> float:
    began = time.thread_time()
    take(given_input)
    return time.thread_time() - began


def feed_named(name: str, inputs: int, first_seed: int) -> Fed | str:
    """As ``feed``, for another process: answers the target's name and traceback if it failed."""
    target = next(each for each in TARGETS if each.name == name)
    try:
        return feed(target, inputs, first_seed)
    except Exception:
        return traceback.format_exc(limit=-6)


class Memory:
    """How much memory this process has taken since it was last asked to forget: what Linux keeps, or else nothing."""

    def __init__(self) -> None:
        self._known = STATUS.exists()

    def forget(self) -> int:
        """Begin anew; answers what it takes now."""
        if self._known:
            with suppress(PermissionError):
                PEAK.write_text("5")
        return self.peak_bytes("VmRSS")

    def peak_bytes(self, line: str = "VmHWM") -> int:
        """The most it has taken."""
        if not self._known:
            return 0
        return int(STATUS.read_text().partition(f"{line}:")[2].split()[0]) * 1024
