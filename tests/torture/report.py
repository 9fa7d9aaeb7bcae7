"""What a run shows: a line of progress while it goes on, and at its end every number it is about."""

from __future__ import annotations

import asyncio
import sys
from contextlib import suppress
from types import TracebackType
from typing import Any, Final, Self

from tests.torture.crew import Crew
from tests.torture.ledger import Ledger

BAR_CHARACTERS: Final = 24
SECONDS_PER_LINE: Final = 15.0
"""Where nobody watches."""
MOST_COMPLAINTS: Final = 12


class Progress:
    """Tells on standard error how far the run is."""

    def __init__(self, crew: Crew, ledger: Ledger) -> None:
        self._crew = crew
        self._ledger = ledger
        self._live = sys.stderr.isatty()

    async def __aenter__(self) -> Self:
        self._task = asyncio.create_task(self._go_on())
        return self

    async def __aexit__(
        self, _type: type[BaseException] | None, _error: BaseException | None, _traceback: TracebackType | None
    ) -> None:
        self._task.cancel()
        with suppress(asyncio.CancelledError):
            await self._task
        print("\r" + self._line() if self._live else self._line(), file=sys.stderr)

    async def _go_on(self) -> None:
        while True:
            await asyncio.sleep(0.5 if self._live else SECONDS_PER_LINE)
            print("\r" + self._line() if self._live else self._line(), end="" if self._live else "\n", file=sys.stderr)

    def _line(self) -> str:
        crew = self._crew
        kills, all_kills = crew.deck.count("kill")
        stops, all_stops = crew.deck.count("stop")
        done = min(kills + stops, all_kills + all_stops) * BAR_CHARACTERS // max(1, all_kills + all_stops)
        ((ended,),) = self._ledger.read("SELECT count(DISTINCT id) FROM verified")
        return (
            f"[{'#' * done}{'.' * (BAR_CHARACTERS - done)}] {crew.seconds:4.0f} s  {kills}/{all_kills} kills  "
            f"{stops}/{all_stops} zombies  {crew.counts['fenced']} fenced  {ended} executions ended"
        )


def show(report: dict[str, Any]) -> None:
    """Print the report for people."""
    print(f"\n{'point':<22}{'kills':>7}{'stops':>7}")
    for point, hits in report["points"].items():
        print(f"{point:<22}{hits['kill']:>7}{hits['stop']:>7}")
    print()
    for name, value in report["counters"].items():
        print(f"{name:<34}{value:>9,}")
    print(f"\n{report['seconds']} s, seed {report['options']['seed']}, {report['machine']}")
    for check, complaints in report["complaints"].items():
        print(f"\nRED {check}: {len(complaints)}")
        for complaint in complaints[:MOST_COMPLAINTS]:
            print(f"  - {complaint}")
    print("\nRED" if report["complaints"] else "\nGREEN: every promise was kept")
