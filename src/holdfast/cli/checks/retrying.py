"""The finding of ``holdfast doctor`` about steps that failed and are tried again, by step and error.

Many executions that retry one step with one error are a storm: what the step calls is down, or limits its callers.
"""

from __future__ import annotations

from typing import Final

from msgspec import Struct

from holdfast.cli.checks.finding import EXAMPLES, OK, WARN, Finding, show
from holdfast.clock import duration
from holdfast.workflows.record import workflow_of
from holdfast.workflows.waits import STEP, Waits

STORM: Final = 10
"""This number of executions that retry one step with one error has one cause."""

LONG_MS: Final = 60_000
"""A pause before the next attempt that is worth a word."""


class Retries(Struct):
    """The executions that retry one step with one error: how many, the first of them, and when one is tried next."""

    first: str
    next_ms: int
    count: int = 0


class Retrying(Struct):
    """The executions that wait for the next attempt of a step, as their heads tell it."""

    groups: dict[tuple[str, str, str], Retries] = {}

    def note(self, partition: str, waits: Waits | None) -> None:
        """What one execution waits for."""
        for wait in () if waits is None else waits.waits:
            if wait.kind == STEP and wait.error and wait.until and not wait.began:
                step = wait.op.rpartition("/")[2].partition("#")[0]
                key = (workflow_of(partition), step, wait.error)
                group = self.groups.setdefault(key, Retries(partition, wait.until))
                group.count += 1
                group.next_ms = min(group.next_ms, wait.until)

    def finding(self, now: int) -> Finding:
        """How many there are, with the largest groups named."""
        if not self.groups:
            return Finding(OK, "retries", "no step waits for its next attempt")
        groups = sorted(self.groups.items(), key=lambda each: -each[1].count)
        count = sum(group.count for group in self.groups.values())
        told = tuple(_told(*group, now) for group in groups[:EXAMPLES])
        storm, far = groups[0][1].count >= STORM, any(each.next_ms > now + LONG_MS for each in self.groups.values())
        what = f"{count:,} executions wait for the next attempt of a step"
        if storm:
            what = f"{what}, {groups[0][1].count:,} of them after one error: repair what the step calls, or pause them"
        return Finding(WARN if storm or far else OK, "retries", what, told)


def _told(key: tuple[str, str, str], group: Retries, now: int) -> str:
    _, step, error = key
    ahead = f"in {duration(group.next_ms - now)}" if group.next_ms > now else "now"
    return f"{show(group.first)}: {group.count:,} × step {step}, {error}; the next attempt {ahead}"
