"""Which fault happens to which process next: a quota for every point, dealt in random order until all have happened."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from random import Random
from typing import Final

from tests.torture.points import CLIENT_KINDS, KINDS, MOMENTS, Fault

Cell = tuple[str, str, str]
"""Kind, moment, action."""

FREQUENT: Final = {"claim": 5, "append": 10, "settle": 5, "conclude": 4, "renewal": 2, "receipt": 2}
"""Writes of which a process does many: up to so many of them pass before the fault."""


class Deck:
    """Quotas of faults: how many are wanted, have happened, and are in the hands of living processes."""

    def __init__(self, random: Random, kills: int, stops: int) -> None:
        self._random = random
        self.wanted: Counter[Cell] = Counter()
        self.happened: Counter[Cell] = Counter()
        self._dealt: Counter[Cell] = Counter()
        points = [(kind, moment) for kind in KINDS for moment in MOMENTS]
        random.shuffle(points)
        # Stops go on where kills left off, so that even a short run meets every point once.
        for place in range(kills + stops):
            self.wanted[*points[place % len(points)], "kill" if place < kills else "stop"] += 1

    @property
    def done(self) -> bool:
        """Whether everything wanted has happened."""
        return all(self.happened[cell] >= number for cell, number in self.wanted.items())

    @property
    def missing(self) -> list[str]:
        """The points that have not seen enough, for a report."""
        return [
            f"{kind}:{moment} {action} {self.happened[kind, moment, action]}/{number}"
            for (kind, moment, action), number in self.wanted.items()
            if self.happened[kind, moment, action] < number
        ]

    def count(self, action: str) -> tuple[int, int]:
        """How many of this action have happened, and how many are wanted."""
        happened = sum(number for cell, number in self.happened.items() if cell[2] == action)
        return happened, sum(number for cell, number in self.wanted.items() if cell[2] == action)

    def deal(self, *, client: bool, may_stop: bool) -> list[Fault]:
        """The faults of one life: one of those that are wanted most; a stop is followed by a kill."""
        first = self._draw(client=client, actions=("kill", "stop") if may_stop else ("kill",))
        if first is None:
            return []
        if first.action == "kill":
            return [first]
        second = self._draw(client=client, actions=("kill",))
        return [first] if second is None else [first, second]

    def _draw(self, *, client: bool, actions: Sequence[str]) -> Fault | None:
        open_cells = {
            cell: number - self.happened[cell] - self._dealt[cell]
            for cell, number in self.wanted.items()
            if cell[2] in actions and (not client or cell[0] in CLIENT_KINDS)
        }
        cells = [cell for cell, number in open_cells.items() if number > 0]
        if not cells:
            return None
        (cell,) = self._random.choices(cells, [open_cells[cell] ** 2 for cell in cells])
        self._dealt[cell] += 1
        return Fault(*cell, number=self._random.randint(1, FREQUENT.get(cell[0], 1)))

    def hit(self, fault: Fault) -> None:
        """It has happened."""
        self._dealt[fault[:3]] -= 1
        self.happened[fault[:3]] += 1

    def give_back(self, faults: Sequence[Fault]) -> None:
        """The process died of something else before these."""
        for fault in faults:
            self._dealt[fault[:3]] -= 1
