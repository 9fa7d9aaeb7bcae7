"""Where the scenarios are crashed: in memory, watched at every write, and on DynamoDB Local by real HTTP.

There each run is some twenty times slower. ``make test`` lets processes die there before and after every write of every
scenario, except that of the longest it takes a sample of the points, and a sample of the scenarios for zombies and
laggards, always the same. ``make torture-aws`` plays everything that is played in memory. Pages are torn there and the
index lags behind; a sample goes through the hostile proxy too, which refuses requests and loses answers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from random import Random
from typing import Any

from tests.backends.aws.rough import RoughDatabase

from holdfast.testing import MemoryDatabase, Scenario, crash_at_every_write, pause_at_every_write
from holdfast.testing.crashes import FAULTS, Report
from holdfast.testing.faults import WriteFault

SAMPLE_SEED = 7


@dataclass(frozen=True)
class Stage:
    """A home that scenarios are played on; their requests go another ``way`` than that of ``client``, if one is given.
    ``share`` says how many are played, where all would take too long; ``in_turn``, that each write has one of the
    faults, and the next write the next one, where each scenario is played in another way too.
    """

    name: str
    client: Any = None
    way: Any = None
    faults: Sequence[WriteFault] = FAULTS
    share: float = 1.0
    most_points: int | None = None
    in_turn: bool = False

    def on(self, scenario: Scenario) -> Scenario:
        """The same scenario here, unchanged."""
        if self.client is None:
            return scenario
        there = scenario.database()
        assert isinstance(there, MemoryDatabase), "this one is about a database of its own"
        holds = [item for entity in there.data.partitions.values() for item in entity.values()]
        database = partial(RoughDatabase, self.client, way=self.way, holds=holds)
        return replace(scenario, database=database, unsteady=self.way is not None)

    def crash(self, scenario: Scenario) -> Report:
        """A fault at every write of it, or at so many as there is time for here."""
        report = crash_at_every_write(
            self.on(scenario), self.faults, most_points=self.most_points, in_turn=self.in_turn
        )
        every = (1 if self.in_turn else len(self.faults)) * report.writes
        assert report.points == min(every, self.most_points or every) > 0
        assert report.faults.counts.total() > report.points / 2, "faults that did not happen prove nothing"
        return report

    def pause(self, scenario: Scenario) -> Report:
        """A stop at every write of one that is played here.

        A request that was under way when its process was stopped is out of time: it fails, and is made again.
        """
        unsteady = scenario.unsteady or self.client is not None
        report = pause_at_every_write(replace(scenario, unsteady=unsteady), in_turn=self.in_turn)
        assert scenario.unsteady or report.faults.counts.total() == report.points
        return report

    def some(self, scenarios: Sequence[Scenario]) -> list[Scenario]:
        """All of them, or a sample."""
        count = max(1, round(self.share * len(scenarios)))
        chosen = scenarios if count == len(scenarios) else Random(SAMPLE_SEED).sample(list(scenarios), count)
        return [self.on(each) for each in chosen]

    def at_least(self, count: int) -> int:
        """How often something has to happen here that happens ``count`` times where all are played."""
        return max(1, int(self.share * count / 2)) if self.share < 1 else count
