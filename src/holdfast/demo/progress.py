"""How the demonstration looks while it runs: a bar on a terminal, a few lines anywhere else."""

from __future__ import annotations

import sys
from collections import Counter
from typing import Final

BAR_CELLS: Final = 30
STEPS: Final = 4
"""Without a terminal, how many lines of progress are printed."""


class Progress:
    """Prints; a ``Watcher`` of ``run``."""

    def __init__(self, *, quiet: bool = False) -> None:
        self._quiet = quiet
        self._bar = sys.stdout.isatty()
        self._drawn = ""
        self._steps = 0

    def progress(self, ended: int, orders: int, outcomes: Counter[str]) -> None:
        """Draw the bar, or print a line at each quarter."""
        told = f"{ended:>4}/{orders} orders, {outcomes['confirmed']} confirmed"
        if self._quiet:
            return
        if not self._bar:
            if ended * STEPS // orders > self._steps:
                self._steps = ended * STEPS // orders
                print(f"  {told}", flush=True)
            return
        full = ended * BAR_CELLS // orders
        drawn = f"  {'█' * full}{'░' * (BAR_CELLS - full)} {told}"
        if drawn != self._drawn:
            self._drawn = drawn
            self._draw("\n" if ended == orders else "")

    def tell(self, text: str) -> None:
        """Print a line above the bar."""
        if self._quiet:
            return
        if self._drawn:
            print("\r\033[K", end="")
        print(f"  {text}", flush=True)
        if self._drawn:
            self._draw("")

    def _draw(self, end: str) -> None:
        print(f"\r\033[K{self._drawn}", end=end, flush=True)
        if end:
            self._drawn = ""
