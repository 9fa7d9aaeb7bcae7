"""A swarm's failures, with the command that shows each again."""

from __future__ import annotations

from holdfast.testing.swarm import SwarmReport

MOST_TOLD = 5


def explained(report: SwarmReport) -> str:
    """What failed, and how to see it."""
    told = [f"{run}\n    see it: python -m tests.simulation --seed {run.seed}" for run in report.failures[:MOST_TOLD]]
    return "\n".join((str(report), *told))
