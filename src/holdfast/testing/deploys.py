"""Which code the processes of a swarm have: the first processes the first, later ones any of it."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

from holdfast.app import App
from holdfast.testing.chaos import FEWEST_PROCESSES
from holdfast.testing.happenings import Happening
from holdfast.testing.ledger import Ledger
from holdfast.testing.process import Process
from holdfast.testing.simulation import Scenario
from holdfast.testing.world import Build, User


class Deploys:
    """Draws the code of each process, until the last is deployed everywhere."""

    def __init__(self, scenarios: Sequence[Scenario], seed: int) -> None:
        self._scenarios = scenarios
        self._random = Random(f"deploys of {seed}")
        self._codes: dict[App, int] = {}
        self._is_over = False
        self.later = tuple(build for each in scenarios for build in each.later)
        self._last = max(len(each.later) for each in scenarios)

    def build(self, app: App, ledger: Ledger) -> dict[str, User]:
        """Register all scenarios with the app of a new process; returns what the user of each does with it."""
        code = self._codes[app] = self._drawn()
        if code:
            ledger.happened[Happening.CODE_CHANGED] += 1
        return {each.name: _code_of(each, code)(app, ledger.part(each.name)) for each in self._scenarios}

    def finish(self, processes: Sequence[Process]) -> list[Process]:
        """From now on all code is the last. Returns the processes with older code."""
        self._is_over = True
        return [process for process in processes if self._codes[process.app] != self._last]

    def _drawn(self) -> int:
        if self._is_over:
            return self._last
        return 0 if len(self._codes) < FEWEST_PROCESSES else self._random.randint(0, self._last)


def _code_of(scenario: Scenario, code: int) -> Build:
    return (scenario.build, *scenario.later)[min(code, len(scenario.later))]
